UPDATE invoices SET cents = $2, fence = $3
WHERE id = $1 AND fence <= $3
