quick['a 1 2'], quick['a 2 4'] = acquire_one, acquire_one
quick['r 1 1'], quick['r 2 4'] = release_one, release_one
