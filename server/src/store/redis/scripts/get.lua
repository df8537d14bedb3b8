#!lua flags=no-writes
-- Objects as they are now.
--
-- KEYS  head, objects, overlay, statuses
-- ARGV  keys
--
-- Replies {head, {key, value, status, ...}}; status is of a campaign that was switched, else
-- empty; objects that are not there are left out.
local head, objects, overlay, statuses = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local found = {}
for _, key in ipairs(ARGV) do
  local value = redis.call('HGET', overlay, key) or redis.call('HGET', objects, key)
  if value and value ~= '-' then
    local status = ''
    if string.sub(key, 1, 1) == '4' then status = redis.call('HGET', statuses, string.sub(key, 3)) or '' end
    table.insert(found, key)
    table.insert(found, value)
    table.insert(found, status)
  end
end
return {redis.call('HGETALL', head), found}
