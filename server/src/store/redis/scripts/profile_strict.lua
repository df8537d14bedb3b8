-- Admits ads whose caps have to hold on all nodes (after profile.lua, whose keys and first
-- arguments it has).
--
-- ARGV[5]     ads in the answer at most
-- ARGV[6...]  for each candidate, best first: its advertiser, the record of its exposure, how many
--             places better ads of other campaigns take, and its caps, each as
--             `<level> <window in microseconds> <exposures>` and a line feed; levels are a (ad),
--             c (campaign) and v (advertiser)
-- Reply       the positions from 0 of those admitted, and the whole hash, as HGETALL
--
-- A candidate is admitted, and recorded, where the answer has a place left for it, all its caps
-- hold in the hash as it is then, and the hash has room. Caps are read and the exposure is written
-- in one step, so no cap is ever exceeded, whoever else asks.
local count, admitted = tonumber(ARGV[5]), {}

-- The bytes of a record by which a level tells what counts: campaign, ad, or nothing.
local function counts(level, seen, record)
  if level == 'a' then return seen:sub(33, 36) == record:sub(33, 36) end
  if level == 'c' then return seen:sub(29, 32) == record:sub(29, 32) end
  return true
end

local function caps_hold(list, record, caps)
  for level, window_us, exposures_max in caps:gmatch('(%a) (%d+) (%d+)\n') do
    local seen = 0
    for _, other in ipairs(list) do
      local at_us = struct.unpack('<i8', other)
      if now_us - at_us < tonumber(window_us) and counts(level, other, record) then
        seen = seen + 1
      end
    end
    if seen >= tonumber(exposures_max) then return false end
  end
  return true
end

for at = 6, #ARGV, 4 do
  local advertiser, record, taken_before, caps = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  if tonumber(taken_before) + #admitted < count then
    local list = list_of(advertiser)
    -- One that is there was admitted when the same was asked before.
    if place_of(advertiser, record)
      or caps_hold(list, record, caps) and add(advertiser, record) then
      admitted[#admitted + 1] = (at - 6) / 4
    end
  end
end
return { admitted, save() }
