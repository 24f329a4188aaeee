-- What take, refund and reset share: how state is stored, and how it is read.
--
-- Times are milliseconds since the Unix epoch. All numbers are whole and below 2^53, so Lua's doubles hold
-- them exactly. Redis runs this text anew for every call: each function that is made and each local that a function
-- uses from outside costs time, and so does every byte of every string that is made, for Redis hashes it. So functions
-- are few, rare ones are made inside of one that makes them when asked, and the numbers of the formats stand where
-- they are needed.
--
-- A value begins with two bytes: 0xF5, which is found in no text, and 8 * version + form.
--
--   form 1  small log  head; the older entries, oldest first
--   form 2  large log  head, areas for entries called the back and the front, ring's head, a ring of pages
--   form 3  counter    number of the window (2n, or -2n-1 before the epoch), units of the window before, units of
--                      this one: packed numbers
--
--   bytes of a log      what
--     1   2 I2          mark and format
--     3   7 i7          recorded time of the newest entry
--    10   6 I6          span from the oldest entry to the newest
--    16   6 I6          units
--    22   6 I6          units of the newest entry
--    28  ..             small log: the older entries
--    28   6 I6          running total before the oldest entry; totals count modulo 2^48
--    34   3 I1 I1 I1    bytes used of the back; of the front: bytes that were dropped, and up to the end
--    37  50             the back
--    87  50             the front
--   137  13 i7 I6       the back: time of its first entry, running total before it
--   150   9 I3 I3 I3    the ring: slot of the oldest page, pages, slots
--   159  64 each        slots: time of the first entry i7, running total before it I6, bytes used I1, entries
--
-- An entry is (units, gap): what was charged under one recorded time, and the milliseconds to the next entry.
-- A log is read forward from its oldest time, and it grows by one entry when the newest gets a successor. An
-- entry takes one to three bytes where units are few and times are near: memory follows what is held.
--
-- The entries of a large log are those of the front, of the pages, of the back, and the newest. A charge reads and
-- writes the head and the areas, and it touches a page only when an area is used up or full. Pages that hold what a
-- refusal or a refund looks for are found by bisection. The gap of a page's last entry is not used: what comes next
-- tells its time itself, so a refund need not mend it.

-- put packs a number: the first byte says how many follow.
local function put(n)
  if n < 0x80 then return string.char(n) end
  local low = n % 0x100
  local high = (n - low) / 0x100
  if high < 0x40 then return string.char(0x80 + high, low) end
  if high < 0x2000 then return string.char(0xC0 + (high - high % 0x100) / 0x100, high % 0x100, low) end
  if n < 0x10000000 then return struct.pack('>I4', 0xE0000000 + n) end
  if n < 0x800000000 then return struct.pack('>I5', 0xF000000000 + n) end
  if n < 0x40000000000 then return struct.pack('>I6', 0xF80000000000 + n) end
  return struct.pack('>I1I7', 0xFC, n)
end

-- get returns the packed number at p and where it ends; nil if s ends before.
local function get(s, p)
  local a, b, c, d, e = s:byte(p, p + 4)
  if not a then return nil end
  if a < 0x80 then return a, p + 1 end
  if not b then return nil end
  if a < 0xC0 then return (a - 0x80) * 0x100 + b, p + 2 end
  if not c then return nil end
  if a < 0xE0 then return (a - 0xC0) * 0x10000 + b * 0x100 + c, p + 3 end
  if not d then return nil end
  if a < 0xF0 then return (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, p + 4 end
  if not e then return nil end
  if a < 0xF8 then return (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, p + 5 end
  local size = a < 0xFC and 6 or 8
  if p + size > #s + 1 then return nil end
  if size == 8 then return struct.unpack('>I7', s, p + 1), p + 8 end
  return struct.unpack('>I6', s, p) - 0xF80000000000, p + 6
end

-- next_entry returns units, gap and end of the entry at p; nil if s ends before. Most have one unit, which takes no
-- byte of its own.
local function next_entry(s, p)
  local v, q = get(s, p)
  if not v then return nil end
  if v % 2 == 0 then return 1, v / 2, q end
  local units
  units, q = get(s, q)
  if not units then return nil end
  return units, (v - 1) / 2, q
end

-- strange tells what was found where no value of the wanted form was: false for a newer format than this script knows,
-- which must not be touched, nil for what is nothing of ours. An error but that of a foreign type is raised.
local function strange(s)
  if type(s) == 'table' and s.err:sub(1, 9) ~= 'WRONGTYPE' then error(s.err) end
  if type(s) == 'table' then return nil end
  local mark, format = s:byte(1, 2)
  if mark == 0xF5 and format and format > 15 then return false end
  return nil
end

-- counter makes the functions that read counters and put them together, of others that are there.
local function counter(get, put, strange)
  -- read returns the start of the stored window, the units before it and those in it; nil if s is no counter, false if
  -- it is of a newer format.
  local function read(s, window)
    if #s < 5 or s:byte(1) ~= 0xF5 or s:byte(2) ~= 11 then return strange(s) end -- an error has no length
    local n, prev, cur, p
    n, p = get(s, 3)
    if n then prev, p = get(s, p) end
    if prev then cur, p = get(s, p) end
    if not cur or p <= #s or prev > 1e12 or cur > 1e12 then return nil end
    local start = (n % 2 == 0 and n / 2 or -(n + 1) / 2) * window
    if start > 2 ^ 52 or start < -2 ^ 52 then return nil end
    return start, prev, cur
  end

  -- state returns how long a counter is to live in milliseconds, as text: until its last unit has no weight left, and
  -- grace longer; and its value.
  local function state(window, start, prev, cur, now, grace)
    -- floor(units * (window - elapsed) / window) is 0 from elapsed = window - floor((window - 1) / units) on.
    local gone, units = start + window, prev
    if cur > 0 then gone, units = gone + window, cur end
    local unseen = (window - 1) / units
    gone = gone - (unseen - unseen % 1)
    local n, life = start / window, gone > now and gone - now + grace or grace
    return string.format('%d', life), '\245\11' .. put(n < 0 and -2 * n - 1 or 2 * n) .. put(prev) .. put(cur)
  end

  -- current returns whether a value is a counter or nothing, the start of the window that counts at now, units of the
  -- one before and of this one, and how many they come to.
  local function current(s, window, now)
    local start = now - now % window
    if s == '' then return true, start, 0, 0, 0 end
    local at, prev, cur = read(s, window)
    if not at then return at, start, 0, 0, 0 end
    if start > at then at, prev, cur = start, start == at + window and cur or 0, 0 end
    if prev == 0 then return true, at, 0, cur, cur end
    local weighed = prev * (window - (now > at and now - at or 0)) / window
    return true, at, prev, cur, weighed - weighed % 1 + cur
  end

  return current, state, read
end
