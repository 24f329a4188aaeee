-- take decides requests of one plan in their order, each as if it were alone, all at one reading of the clock.
--
--   KEYS   for each request, for each limit, where the limit's state lives
--   ARGV   't' to take or 'p' to peek, the clock or '', for each limit: 'l' or 'c', quota, window, resolution;
--          then for each request its cost
--   reply  for each request: status, now, then for each limit: At, Units, Back, as slidegate.Reading has them
--
-- A status is 1 for an admitted request, plus 2 for each value that was not understood and was replaced; 0 for a
-- refused one; -1 where the request was not decided, for a value of it has a newer format.
--
-- A log counts what was recorded after edge, that is now - window. What it comes to is carried in locals:
--
--   newest, oldest   recorded times of the newest entry and of the oldest that counts
--   units, last      units that count, and those of the newest entry
--   from, p, stop    where the entries from the oldest on begin, and where they or their part of the log end
--   page             which page that is: -1 for the front, nil if neither front nor pages count
--   total            of a large log: the running total behind the newest entry
--   back_size        of a large log: bytes used of the back

-- pages makes the functions that only large logs need, and those only now and then.
local function pages()
  -- ring reads the ring of a large log; nil if that is none.
  local function ring(key, s)
    local head, back_size = redis.call('GETRANGE', key, '136', '157'), s:byte(34)
    if #head < 22 then return nil end
    local back_time, back_total, first, count, cap = struct.unpack('>i7I6I3I3I3', head)
    if first >= cap or count > cap then return nil end

    -- part returns the j-th oldest page, the back for count: the time of its first entry, the running total before
    -- it, its bytes, and where in them entries begin and end; nil where the value is shorter than it says.
    local function part(j)
      if j == count then return back_time, back_total, s, 37, 36 + back_size end
      local at = 158 + (first + j) % cap * 64
      local page = redis.call('GETRANGE', key, at, at + 63)
      if #page < 64 then return nil end
      local time, total, size = struct.unpack('>i7I6I1', page)
      return time, total, page, 15, 14 + math.min(size, 50)
    end

    -- find returns the last part from low on for which holds(time, total) is true, as it is for those before; low - 1
    -- if there is none; nil where the value is shorter than it says. Most often it is near low, so steps begin small.
    local function find(low, holds)
      local high, step = count, 1
      low = low - 1
      while low < high do
        local j = math.min(low + step, math.floor((low + high + 1) / 2))
        local time, total = part(j)
        if not time then return nil end
        if holds(time, total) then low, step = j, 2 * step else high, step = j - 1, count end
      end
      return low
    end

    return count, part, find, back_time, back_total, first, cap
  end

  -- oldest finds the oldest entry that counts where nothing in the front does, but the newest.
  local function oldest(key, s, edge, newest)
    local count, part, find = ring(key, s)
    local j = count and find(0, function(time) return time <= edge end)
    if not j then return nil end
    -- It is in the last part that begins with one that does not count, or it begins the next.
    local time, total, from, p, stop
    if j >= 0 then time, total, from, p, stop = part(j) end
    while time and time <= edge and p <= stop do
      local n, gap
      n, gap, p = next_entry(from, p)
      if not n then return nil end
      time, total = time + gap, total + n
    end
    if j < count and (not time or p > stop) then
      j = j + 1
      time, total, from, p, stop = part(j)
    end
    if not time then return nil end
    local all, last, base = struct.unpack('>I6I6I6', s, 16)
    local units = all - (total - base) % 2 ^ 48
    if time <= edge or time > newest or units < last or p > stop and time < newest then return nil end
    return units, time, from, p, stop, j < count and j or nil
  end

  -- leaver returns the time of the need-th oldest of units that count; it is in a part after page, or the newest.
  local function leaver(key, s, need, units, page, newest)
    local all, _, base = struct.unpack('>I6I6I6', s, 16)
    local count, part, find = ring(key, s)
    base = base + all - units
    local j = count and find(page + 1, function(_, total) return (total - base) % 2 ^ 48 < need end)
    if not j or j <= page then return newest end
    local time, total, from, p, stop = part(j)
    need = need - (total - base) % 2 ^ 48
    while p <= stop do
      local n, gap
      n, gap, p = next_entry(from, p)
      if not n or n >= need then return time end
      need, time = need - n, time + gap
    end
    return newest
  end

  -- spread returns the pages of a ring from the oldest on, in two parts: putting them together takes time if they are many.
  local function spread(key, first, count, cap)
    local past = math.max(0, first + count - cap)
    if count == 0 then return '', '' end
    local older = redis.call('GETRANGE', key, 158 + first * 64, 157 + (first + count - past) * 64)
    if past == 0 then return older, '' end
    return older, redis.call('GETRANGE', key, 158, 157 + past * 64)
  end

  -- charge appends the entry e, or nothing if that is '', where the front or the back needs a page for it, and tells
  -- whether the log was one. The numbers are those of the head that is to be; newest is the time of e.
  local function charge(key, s, life, at, span, units, last, base, from, p, stop, page, e, newest)
    local count, _, _, back_time, back_total, first, cap = ring(key, s)
    if not count or redis.call('STRLEN', key) ~= 158 + cap * 64 then return false end
    local back_size, dropped, size = s:byte(34, 36)
    local back, front, full = s:sub(37, 36 + back_size), s:sub(87, 86 + size), nil
    if page < 0 then
      dropped = p - 87
    else -- the front is used up: this page takes its place
      front = from:sub(p, stop)
      dropped, size, first, count = 0, #front, (first + page + 1) % cap, count - page - 1
    end
    if back_size + #e > 50 then -- the back is full: it becomes a page, and e the first of the back
      full = struct.pack('>i7I6I1', back_time, back_total, back_size) .. back .. ('\0'):rep(50 - back_size)
      back, back_time, back_total = '', newest, (base + units - last - next_entry(e, 1)) % 2 ^ 48
    end
    back = back .. e
    local older, newer
    if full and count == cap or cap > 4 and count < cap / 4 then -- the ring grows or shrinks
      older, newer = spread(key, first, count, cap)
      first, cap = 0, count + math.floor(count / 4) + 2
    elseif full then
      redis.call('SETRANGE', key, 158 + (first + count) % cap * 64, full)
    end
    if full then count = count + 1 end
    s = struct.pack('>I2i7I6I6I6I6I1I1I1', 0xF50A, at, span, units, last, base, #back, dropped, size)
      .. back .. ('\0'):rep(50 - #back) .. front .. ('\0'):rep(50 - size)
      .. struct.pack('>i7I6I3I3I3', back_time, back_total, first, count, cap)
    if older then
      redis.call('PSETEX', key, life, s .. older .. newer .. (full or '') .. ('\0'):rep((cap - count) * 64))
    else
      redis.call('SETRANGE', key, '0', s)
      redis.call('PEXPIRE', key, life)
    end
    return true
  end

  -- split returns a log that has become too long for a small one.
  local function split(at, span, units, last, older)
    local p, time, front = 1, at - span, 0
    while true do
      local n, gap, q = next_entry(older, p)
      if not n or q > 51 then break end
      p, time, front = q, time + gap, front + n
    end
    local back = older:sub(p)
    return struct.pack('>I2i7I6I6I6I6I1I1I1', 0xF50A, at, span, units, last, 0, #back, 0, p - 1)
      .. back .. ('\0'):rep(50 - #back) .. older:sub(1, p - 1) .. ('\0'):rep(51 - p)
      .. struct.pack('>i7I6I3I3I3', time, front, 0, 0, 2) .. ('\0'):rep(2 * 64)
  end

  return oldest, leaver, charge, split
end

-- read_log reads what of a log counts; nil if s is no log, false if it is of a newer format. If more than quota units
-- count, back is the time of the oldest unit but (units - quota - 1): once it leaves, quota are left.
local function read_log(key, s, edge, quota)
  if s == '' then return 0, 0, 0 end
  local p, stop = 28, #s -- an error has no length
  local tag, newest, span, units, last, total, back_size, page
  if stop == 136 then
    tag, newest, span, units, last, total, back_size, p, stop = struct.unpack('>I2i7I6I6I6I6I1I1I1', s)
    if tag ~= 0xF50A then return strange(s) end
    if p > stop or stop > 50 or back_size > 50 then return nil end
    total, p, stop, page = total + units, 87 + p, 86 + stop, -1
  else
    if stop >= 27 then tag, newest, span, units, last = struct.unpack('>I2i7I6I6I6', s) end
    if tag ~= 0xF509 then return strange(s) end
  end
  if last < 1 or units < last or units > 1e12 or newest > 2 ^ 52 or newest < -2 ^ 52 then return nil end
  if newest <= edge then return 0, 0, 0 end
  local oldest, from = newest - span, s
  while oldest <= edge and p <= stop do
    local n, gap
    n, gap, p = next_entry(s, p)
    if not n then return nil end
    oldest, units = oldest + gap, units - n
  end
  if p > stop and page then
    units, oldest, from, p, stop, page = pages()(key, s, edge, newest)
    if not units then return nil end
  elseif oldest > newest or units < last or p > stop and (oldest < newest or units > last) then
    return nil
  end
  if units <= quota then return newest, units, 0, oldest, last, from, p, stop, page, total, back_size end
  local need, back = units - quota, oldest
  while p <= stop do
    local n, gap
    n, gap, p = next_entry(from, p)
    if not n then return nil end
    if n >= need then return newest, units, back end
    need, back = need - n, back + gap
  end
  if not page then return newest, units, newest end
  local _, leaver = pages()
  return newest, units, leaver(key, s, units - quota, units, page, newest)
end

-- charge_log charges a log and returns its newest time, its units, and 2 if it turns out to be none, else 0.
local function charge_log(key, s, a, cost, now, window, newest, units, oldest, last, from, p, stop, page, total, back_size)
  -- A key lives until its limit is full again. The server counts from the TIME of this script, or, before 7.2, from a
  -- moment later: a key is never gone too soon. On another clock a key lives a day longer, so expiry never decides.
  local ARGV = ARGV
  local at, life, e = now, ARGV[a + 2], '' -- as text it need not be written
  if ARGV[a + 3] ~= '1' then at = now + -now % ARGV[a + 3] end
  if units > 0 and at < newest then at = newest end
  if ARGV[2] ~= '' then life = at - now + window + 86400000 elseif at > now then life = at - now + window end
  if units == 0 then -- it begins anew
    redis.call('PSETEX', key, life, struct.pack('>I2i7I6I6I6', 0xF509, at, 0, cost, cost))
    return at, cost, 0
  end
  local before = units - last
  if at > newest then -- what was the newest gets a successor
    before, e = units, last == 1 and put(2 * (at - newest)) or put(2 * (at - newest) + 1) .. put(last)
  end
  units = units + cost
  last = units - before
  if not page then
    local older = from:sub(p, stop)
    if #older + #e <= 76 then -- a byte more, and it still fits into two areas: an entry has 12 at most
      s = struct.pack('>I2i7I6I6I6', 0xF509, at, at - oldest, units, last) .. older .. e
    else
      local _, _, _, split = pages()
      s = split(at, at - oldest, units, last, older .. e)
    end
    redis.call('PSETEX', key, life, s)
    return at, units, 0
  end
  local base = (total - units + cost) % 2 ^ 48 -- before the oldest entry
  if page >= 0 or back_size + #e > 50 then
    local _, _, charge = pages()
    if charge(key, s, life, at, at - oldest, units, last, base, from, p, stop, page, e, newest) then return at, units, 0 end
    at, units = charge_log(key, s, a, cost, now, window, newest, 0)
    return at, units, 2
  end
  redis.call('SETRANGE', key, '0', struct.pack('>I2i7I6I6I6I6I1I1I1', 0xF50A, at, at - oldest, units, last, base,
    back_size + #e, p - 87, stop - 86) .. s:sub(37, 36 + back_size) .. e)
  redis.call('PEXPIRE', key, life)
  return at, units, 0
end

-- visit decides limit l of a request and those after it: it reads this one, asks the rest, and charges this one only
-- if all have room. It returns the status, and puts readings into the reply.
local function visit(l, k, r, cost, room, now, reply)
  local key, a, i, ARGV = KEYS[k + l], 4 * l - 1, r + 3 * l, ARGV
  local s = redis.pcall('GETRANGE', key, '0', '135') -- all of a small value, head and areas of a large log
  local quota, window = cost > 0 and ARGV[a + 1] - cost or 1e13, ARGV[a + 2] + 0
  local at, units, back, garbage, oldest, last, from, p, stop, page, total, back_size, write = nil, 0, 0, 0
  if ARGV[a] == 'l' then
    at, units, back, oldest, last, from, p, stop, page, total, back_size = read_log(key, s, now - window, quota)
    if at == false then return -1 end
    if not at then at, units, back, garbage = 0, 0, 0, 2 end
    room = room and units <= quota
  else
    local read
    read, write = counter()
    if s ~= '' then
      at, back, units = read(s, window)
      if at == false then return -1 end
      if not at then garbage = 2 end
    end
    local current = now - now % window
    if at and current == at + window then
      at, back, units = current, units, 0
    elseif not at or current > at then
      at, back, units = current, 0, 0
    end
    room = room and math.floor(back * (window - (now > at and now - at or 0)) / window) + units <= quota
  end
  reply[i], reply[i + 1], reply[i + 2] = at, units, back
  local status, next = room and 1 or 0, ARGV[a + 4]
  if next == 'l' or next == 'c' then status = visit(l + 1, k, r, cost, room, now, reply) end
  if status < 1 or cost == 0 or ARGV[1] == 'p' then return status end
  if write then
    reply[i + 1] = units + cost
    write(key, window, at, back, units + cost, now, ARGV[2] == '' and 0 or 86400000)
  else
    local more
    reply[i], reply[i + 1], more = charge_log(key, s, a, cost, now, window, at, units, oldest, last, from, p, stop, page, total, back_size)
    garbage = garbage + more
  end
  return status + garbage
end

local now = ARGV[2]
if now == '' then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
else
  now = now + 0 -- twice as quick as tonumber
end
local limits, reply = 0, {0, 0, 0, 0, 0}
while ARGV[4 * limits + 3] == 'l' or ARGV[4 * limits + 3] == 'c' do limits = limits + 1 end
local k, r = 0, 0
for i = 4 * limits + 3, #ARGV do
  local status = visit(1, k, r, ARGV[i] + 0, true, now, reply)
  reply[r + 1], reply[r + 2] = status, now
  if status < 0 then
    for j = r + 3, r + 2 + 3 * limits do reply[j] = 0 end
  end
  k, r = k + limits, r + 2 + 3 * limits
end
return reply
