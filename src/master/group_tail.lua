local replies, shapes, key, argument, n = {}, {}, 1, 1, 0
while ARGV[argument] do
  local header = ARGV[argument]
  local shape = shapes[header]
  if not shape then
    local name, keys, arguments = string.match(header, '^(%a) (%d+) (%d+)$')
    shape = {operations[name], tonumber(keys), tonumber(arguments)}
    shapes[header] = shape
  end
  local next_key, next_argument = key + shape[2], argument + 1 + shape[3]
  -- Guarded, so that what fails for one (out of memory, a key of another type) fails for it alone.
  local done, reply = pcall(
    shape[1], {unpack(KEYS, key, next_key - 1)}, {unpack(ARGV, argument + 1, next_argument - 1)}
  )
  n = n + 1
  if done then
    replies[n] = reply
  else
    -- Redis before 7.0 raises a string with the place in front.
    local error = type(reply) == 'table' and reply.err or tostring(reply)
    replies[n] = (string.gsub(error, '^.-user_script: ?%d+: %-?', ''))
  end
  key, argument = next_key, next_argument
end
return replies
