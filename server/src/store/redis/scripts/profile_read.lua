-- Reads a visitor's profile, unless its reader knows it (see profile.lua).
--
-- KEYS[1]  the visitor's hash
-- ARGV[1]  what it was called when the reader knew all of it
-- Reply    0 where it is still called so; else the whole hash, as HGETALL
if redis.call('HGET', KEYS[1], 'v') == ARGV[1] then return 0 end
return redis.call('HGETALL', KEYS[1])
