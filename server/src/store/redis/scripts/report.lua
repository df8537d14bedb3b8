#!lua
-- A node says how it is.
--
-- KEYS  nodes
-- ARGV  node, what it says, how long a node is remembered in us
--
-- Replies Redis's own clock, in us. Nodes that were not heard of for too long are forgotten.
local nodes = KEYS[1]
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
redis.call('HSET', nodes, ARGV[1], string.format('%.0f ', now) .. ARGV[2])
local all = redis.call('HGETALL', nodes)
for i = 1, #all, 2 do
  local seen = tonumber(string.match(all[i + 1], '^(%d+) ') or '0')
  if now - seen > tonumber(ARGV[3]) then redis.call('HDEL', nodes, all[i]) end
end
return string.format('%.0f', now)
