// Cells of a table.

export function cells(texts) {
  const row = document.createElement('tr');
  for (const text of texts) row.insertCell().textContent = text;
  return row;
}
