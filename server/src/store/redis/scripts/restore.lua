#!lua
-- A part of a whole catalogue, put aside as it was, for a store that came back empty.
--
-- KEYS  head, ids, owned, stage_rows
-- ARGV  life of the stage in ms; then key, owner, value of each object
--
-- Replies 1; 0 where the store is no longer empty.
local head, ids, owned, stage_rows = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
-- A key that was made something else by hand must not stop us halfway.
for at, kind in ipairs({'hash', 'zset', 'zset', 'hash'}) do
  local is = redis.call('TYPE', KEYS[at]).ok
  if is ~= 'none' and is ~= kind then return redis.error_reply('WRONGTYPE ' .. KEYS[at] .. ' is a ' .. is) end
end

if redis.call('HEXISTS', head, 'version') == 1 then return 0 end
for at = 2, #ARGV, 3 do
  local key, owner = ARGV[at], ARGV[at + 1]
  redis.call('HSET', stage_rows, key, ARGV[at + 2])
  redis.call('ZADD', ids, 0, key)
  if owner ~= '' then
    redis.call('ZADD', owned, 0, string.sub(key, 1, 1) .. owner .. '\0' .. string.match(key, '%z(.*)$'))
  end
end
redis.call('PEXPIRE', stage_rows, ARGV[1])
return 1
