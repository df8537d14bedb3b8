#!lua flags=no-writes
-- What changed after a version.
--
-- KEYS  head, objects, overlay, versions, removed, statuses, status_versions, changes
-- ARGV  version, mark (0: any), how many rows at most
--
-- Replies {"ok", head, {key, value, status, ...}, {removed key, ...}}, {"gap", oldest} where the
-- version is not this store's own past or too long ago, or where an object is missing that was
-- not deleted (a load counts what is there), or {"much", head, how many} where there are more
-- rows than asked for.
local head, objects, overlay, versions = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local removed, statuses, status_versions, changes = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local since, mark, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])
local fields = redis.call('HGETALL', head)
local at = {}
for i = 1, #fields, 2 do at[fields[i]] = fields[i + 1] end
local now = tonumber(at['version'] or '0')
local oldest = at['removed_from'] or '0'
if tonumber(since) > now or tonumber(since) < tonumber(oldest) then return {'gap', oldest} end
if mark ~= '0' and since ~= '0' then
  local own = redis.call('ZRANGEBYSCORE', changes, since, since)[1]
  if not own or string.match(own, '^%d+ (%d+)') ~= mark then return {'gap', at['version'] or '0'} end
end
local after = '(' .. since
local is_overlaid = at['overlay'] and tonumber(at['overlay']) > tonumber(since)
local many = redis.call('ZCOUNT', versions, after, '+inf') + redis.call('ZCOUNT', removed, after, '+inf')
  + redis.call('ZCOUNT', status_versions, after, '+inf')
if is_overlaid then many = many + redis.call('HLEN', overlay) end
if many > limit then return {'much', fields, many} end

local rows, gone, seen, is_lost = {}, {}, {}, false
local function see(key, is_removed)
  if seen[key] then return end
  seen[key] = true
  local value = redis.call('HGET', overlay, key) or redis.call('HGET', objects, key)
  if not value or value == '-' then
    is_lost = is_lost or not (value or is_removed)
    table.insert(gone, key)
    return
  end
  local status = ''
  if string.sub(key, 1, 1) == '4' then status = redis.call('HGET', statuses, string.sub(key, 3)) or '' end
  table.insert(rows, key)
  table.insert(rows, value)
  table.insert(rows, status)
end
for _, key in ipairs(redis.call('ZRANGEBYSCORE', removed, after, '+inf')) do see(key, true) end
if is_overlaid then for _, key in ipairs(redis.call('HKEYS', overlay)) do see(key) end end
for _, key in ipairs(redis.call('ZRANGEBYSCORE', versions, after, '+inf')) do see(key) end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', status_versions, after, '+inf')) do see('4\0' .. id) end
if is_lost then return {'gap', oldest} end
return {'ok', fields, rows, gone}
