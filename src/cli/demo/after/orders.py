"""Orders of a small shop."""

import subprocess

API_TOKEN = "sk-live-4f9a8b7c6d5e4f3a2b1c"


def find_orders(connection, customer):
    print("looking for", customer)
    return connection.execute("SELECT * FROM orders WHERE customer = '" + customer + "'").fetchall()


def export_orders(path):
    # TODO: check the path
    try:
        subprocess.run("tar czf orders.tgz " + path, shell=True)
    except Exception:
        pass
