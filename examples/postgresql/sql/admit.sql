INSERT INTO fences (resource, fence) VALUES ($1, $2)
ON CONFLICT (resource) DO UPDATE SET fence = EXCLUDED.fence
WHERE fences.fence <= EXCLUDED.fence
