UPDATE invoices SET fence = $2
WHERE id = $1 AND fence <= $2
RETURNING cents
