// Shows an order on the page.
export function showOrder(element, order) {
  element.textContent = order.title;
}
