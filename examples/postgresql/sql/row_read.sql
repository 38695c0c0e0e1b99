SELECT cents FROM invoices WHERE id = $1 FOR UPDATE
