#!lua flags=allow-oom
-- Which visitors were forgotten since a number, and drops what was told long enough.
--
-- KEYS   as in profile_forgets_add.lua
-- ARGV   the last number that the caller has followed; now and the entries' life in microseconds
-- Reply  the last number, the epoch (empty: nothing was ever forgotten), and the entries after the
--        caller's number that are still kept, oldest first
--
-- It frees memory only, and so a server without memory lets it.
local now_us, life_us = tonumber(ARGV[2]), tonumber(ARGV[3])
local oldest = redis.call('LINDEX', KEYS[2], 0)
while oldest do
  local at_us = tonumber(oldest:match('^%d+ (%d+) '))
  if at_us and now_us - at_us < life_us then break end
  redis.call('LPOP', KEYS[2])
  oldest = redis.call('LINDEX', KEYS[2], 0)
end
local number = tonumber(redis.call('HGET', KEYS[1], 'number') or '') or 0
local epoch = redis.call('HGET', KEYS[1], 'epoch') or ''
local missing = number - tonumber(ARGV[1])
if missing <= 0 then return { number, epoch, {} } end
return { number, epoch, redis.call('LRANGE', KEYS[2], -missing, -1) }
