#!lua flags=no-writes
-- What the nodes have said.
--
-- KEYS  nodes
--
-- Replies {Redis's own clock in us, {node, what it said, ...}}.
local time = redis.call('TIME')
return {string.format('%.0f', tonumber(time[1]) * 1000000 + tonumber(time[2])), redis.call('HGETALL', KEYS[1])}
