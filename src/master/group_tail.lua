local pcall, KEYS, ARGV = pcall, KEYS, ARGV
local replies, shapes, key, argument, n = {}, {}, 1, 1, 0
local header = ARGV[argument]
while header do
  local shape = shapes[header]
  if not shape then
    local name, keys, arguments = string.match(header, '^(%a) (%d+) (%d+)$')
    shape = {operations[name], tonumber(keys), tonumber(arguments), quick[header]}
    shapes[header] = shape
  end
  local next_key, next_argument = key + shape[2], argument + 1 + shape[3]
  -- Guarded, so that what fails for one (out of memory, a key of another type) fails for it alone.
  local done, reply = true, nil
  if shape[4] then
    local fence_key
    if shape[2] == 2 then fence_key = KEYS[key + 1] end
    done, reply = pcall(
      shape[4], KEYS[key], fence_key, ARGV[argument + 1],
      -- Those of the next operation where this one has fewer: without a fence key none is looked at.
      ARGV[argument + 2], ARGV[argument + 3], ARGV[argument + 4]
    )
  end
  if done and not reply then
    done, reply = pcall(
      shape[1], {unpack(KEYS, key, next_key - 1)}, {unpack(ARGV, argument + 1, next_argument - 1)}
    )
  end
  n = n + 1
  if done then
    replies[n] = reply
  else
    -- Redis before 7.0 raises a string with the place in front.
    local error = type(reply) == 'table' and reply.err or tostring(reply)
    replies[n] = (string.gsub(error, '^.-user_script: ?%d+: %-?', ''))
  end
  key, argument, header = next_key, next_argument, ARGV[next_argument]
end
return replies
