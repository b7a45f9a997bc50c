// Shows an order on the page.
export function showOrder(element, order) {
  console.log("order", order);
  element.innerHTML = order.title;
}
