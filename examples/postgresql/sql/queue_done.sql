UPDATE jobs SET done_at = now() WHERE id = $1
