#!lua
-- Tells all nodes that a visitor was forgotten.
--
-- KEYS[1]  a hash: `number` counts such requests, `epoch` tells this count from one that was lost
-- KEYS[2]  the list of the last of them, oldest first, each as `<number> <when> <visitor's hash>
--          <first account> <last account> <until when>`, instants in microseconds
-- ARGV     the number that the caller has seen already; the epoch where there is none yet; now and
--          the entries' life in microseconds; entries at most; the four last fields of the entry
-- Reply    the request's number
--
-- Numbers rise by 1, also where the count was lost and the caller still knows it.
local seen, epoch = tonumber(ARGV[1]), ARGV[2]
local now_us, life_us, entries_max = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local last = tonumber(redis.call('HGET', KEYS[1], 'number') or '') or 0
local number = string.format('%.0f', math.max(last, seen) + 1)
redis.call('HSET', KEYS[1], 'number', number)
redis.call('HSETNX', KEYS[1], 'epoch', epoch)
redis.call('RPUSH', KEYS[2], table.concat({ number, ARGV[3], unpack(ARGV, 6) }, ' '))
redis.call('LTRIM', KEYS[2], -entries_max, -1)
-- The nodes drop each entry at its time; this is for when there are none.
redis.call('PEXPIRE', KEYS[2], math.ceil(life_us / 1000))
return tonumber(number)
