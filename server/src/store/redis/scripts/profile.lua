#!lua
-- What the scripts of a visitor's profile have in common; each begins with this text.
--
-- KEYS[1]  the visitor's hash: `a:<advertiser>` its exposures, `s` its segments, `f` until when
--          (in microseconds) it was forgotten, `v` a name of all this, or none
-- ARGV[1]  now, in microseconds
-- ARGV[2]  the least life of the hash, in milliseconds
-- ARGV[3]  exposures in one list at most
-- ARGV[4]  lists in one profile at most
--
-- An exposure is 36 bytes, little-endian: at_us i64, life_us i64, decision u64, zone u32,
-- campaign u32, ad u32. Of a place that is only held until its impression, life_us is negative: its
-- amount is how long it is held, and to a version that knows no holds it is over. Instants are below 2^53, which a number of Lua holds exactly; a decision
-- is not, and is compared as bytes. A list that is not made of such records counts as empty.
--
-- Two hashes of one name are equal, whenever they were: who adds gives a name that was never given
-- before, and whoever changes something else takes it away.
--
-- What holds after each script: the hash is as before but for what the script says; it has a life
-- of at least ARGV[2]; no exposure that some cap still counts has gone. A server without memory
-- refuses the script as a whole (that is what the first line is for).
local key = KEYS[1]
local now_us, life_ms = tonumber(ARGV[1]), tonumber(ARGV[2])
local list_max, lists_max = tonumber(ARGV[3]), tonumber(ARGV[4])
local RECORD_BYTES = 36

local kind = redis.call('TYPE', key).ok
if kind ~= 'hash' and kind ~= 'none' then redis.call('DEL', key) end
local forgotten_us = tonumber((redis.call('HGET', key, 'f') or ''):match('^%d+$') or '') or 0
-- What is no instant was not written by us.
if forgotten_us >= 2 ^ 53 then forgotten_us = 0 end

-- Lists that were looked at, without what is over, and their showings by name; those to be
-- written; how many are not in the hash yet.
local lists, names, is_changed, new_lists = {}, {}, {}, 0
-- What the hash is called once it has changed.
local new_name = nil

local function is_live(record)
  local at_us, record_life_us = struct.unpack('<i8i8', record)
  return now_us - at_us < math.abs(record_life_us)
end

local function is_held(record)
  local _, record_life_us = struct.unpack('<i8i8', record)
  return record_life_us < 0
end

local function list_of(advertiser)
  if lists[advertiser] then return lists[advertiser] end
  local list = {}
  local stored = redis.call('HGET', key, 'a:' .. advertiser) or ''
  if #stored % RECORD_BYTES == 0 then
    for from = 1, #stored, RECORD_BYTES do
      local record = stored:sub(from, from + RECORD_BYTES - 1)
      if is_live(record) then list[#list + 1] = record end
    end
  end
  lists[advertiser] = list
  is_changed[advertiser] = #list * RECORD_BYTES ~= #stored
  return list
end

-- What names a showing: the decision and the ad.
local function name_of(record)
  return record:sub(17, 24) .. record:sub(33, 36)
end

-- Where in the advertiser's list this very showing is, if it is there.
local function place_of(advertiser, record)
  local known = names[advertiser]
  if not known then
    known = {}
    for at, seen in ipairs(list_of(advertiser)) do known[name_of(seen)] = at end
    names[advertiser] = known
  end
  return known[name_of(record)]
end

local function has_room(list)
  if #list > 0 then return #list < list_max end
  if redis.call('HLEN', key) + new_lists < lists_max then return true end
  -- Lists that are over make room; to find them, all are looked at.
  for _, field in ipairs(redis.call('HKEYS', key)) do
    if field:sub(1, 2) == 'a:' then list_of(field:sub(3)) end
  end
  local used = 0
  for _, other in pairs(lists) do
    if #other > 0 then used = used + 1 end
  end
  return used < lists_max
end

-- Adds an exposure; says whether it is in the list then. One for good takes the place that was held
-- for it.
local function add(advertiser, record)
  if struct.unpack('<i8', record) <= forgotten_us or not is_live(record) then return false end
  local list, place = list_of(advertiser), place_of(advertiser, record)
  if place then
    if is_held(list[place]) and not is_held(record) then
      list[place] = record
      is_changed[advertiser] = true
    end
    return true
  end
  if not has_room(list) then return false end
  if #list == 0 then new_lists = new_lists + 1 end
  list[#list + 1] = record
  names[advertiser][name_of(record)] = #list
  is_changed[advertiser] = true
  return true
end

-- Writes what has changed and sees to the life of the hash; says whether anything has.
local function write()
  local is_any = false
  for advertiser, changed in pairs(is_changed) do
    local list = lists[advertiser]
    is_any = is_any or changed
    if changed and #list > 0 then
      redis.call('HSET', key, 'a:' .. advertiser, table.concat(list))
    elseif changed then
      redis.call('HDEL', key, 'a:' .. advertiser)
    end
  end
  if is_any and new_name then
    redis.call('HSET', key, 'v', new_name)
  elseif is_any then
    redis.call('HDEL', key, 'v')
  end
  if redis.call('PTTL', key) < life_ms then redis.call('PEXPIRE', key, life_ms) end
  return is_any
end

-- Does that, and returns the whole hash.
local function save()
  write()
  return redis.call('HGETALL', key)
end

