UPDATE invoices SET cents = $2 WHERE id = $1
