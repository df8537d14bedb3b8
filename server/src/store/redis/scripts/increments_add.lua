#!lua
-- Adds estimates to an account's documents, once.
--
-- KEYS  the sender's last number, then a document for each day
-- ARGV  number, seconds that the number is kept, seconds that a document is kept; then for each
--       document: number of fields, and each field with what is added to it
--
-- Replies 1, or 0 where this number was added before.
local number = tonumber(ARGV[1])
if tonumber(redis.call('GET', KEYS[1]) or '0') >= number then return 0 end
for at = 2, #KEYS do
  local is = redis.call('TYPE', KEYS[at]).ok
  if is ~= 'none' and is ~= 'hash' then return redis.error_reply('WRONGTYPE ' .. KEYS[at] .. ' is a ' .. is) end
end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
local at = 4
for key = 2, #KEYS do
  local fields = tonumber(ARGV[at])
  at = at + 1
  for _ = 1, fields do
    redis.call('HINCRBY', KEYS[key], ARGV[at], ARGV[at + 1])
    at = at + 2
  end
  redis.call('EXPIRE', KEYS[key], ARGV[3])
end
return 1
