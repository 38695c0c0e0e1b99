INSERT INTO invoices (id, cents, fence) VALUES ($1, $2, $3)
ON CONFLICT (id) DO UPDATE SET cents = EXCLUDED.cents, fence = EXCLUDED.fence
WHERE invoices.fence <= EXCLUDED.fence
