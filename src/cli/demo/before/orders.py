"""Orders of a small shop."""


def find_orders(connection, customer):
    return connection.execute("SELECT * FROM orders WHERE customer = ?", (customer,)).fetchall()
