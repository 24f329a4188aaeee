-- take decides requests of one plan in their order, each as if it were alone, all at one reading of the clock.
--
--   KEYS   for each request, for each limit, where the limit's state lives
--   ARGV   what is asked; for each limit: quota, window; the clock, if what is asked says so; for each log with a
--          resolution: that; for each request its cost, or nothing if all are 1
--   reply  now; then for each request, for each limit: 4 * Units, plus 1 if At follows, plus 2 if Back does; At, but not
--          where it is now, or for a counter the start of the window that now is in; Back, but not where it is 0. Units,
--          At and Back are those of slidegate.Reading. The first number of a request is 64 times that, plus its status;
--          it is -1 alone for a status of -1
--
-- What is asked is a letter and one for each limit: 't' to take or 'p' to peek, 'T' or 'P' with a clock of the
-- caller's; 'l' for a log, 'r' for a log with a resolution of more than a millisecond, 'c' for a counter.
--
-- A status is 1 for an admitted request, plus 2 for each value that was not understood and was replaced; 0 for a
-- refused one; -1 where the request was not decided, for a value of it has a newer format.
--
-- Most of it is one run of statements, and not functions: to make those, and to hand over what they work on, took a
-- fifth of the time of a decision. What most requests come to is done first, in few of them. Of others, each limit is
-- read and, while all before had room, what a charge would make of it is put together; it is written if all have room. A
-- log counts what was recorded after edge, that is now - window. What it comes to is in locals:
--
--   newest, oldest   recorded times of the newest entry and of the oldest that counts
--   units, last      units that count, and those of the newest entry
--   from, p, stop    where the entries from the oldest on begin, and where they or their part of the log end
--   page             which page that is: -1 for the front, nil if neither front nor pages count
--   total            of a large log: the running total behind the newest entry
--   back_size        of a large log: bytes used of the back

-- pages makes the functions that only large logs need, and those only now and then.
local function pages(next_entry)
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

  -- later returns the time of the need-th oldest of units that count; it is in a part after page, or the newest.
  local function later(key, s, need, units, page, newest)
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

  -- leaver returns the time of the need-th oldest of units that count; nil where the value is shorter than it says.
  local function leaver(key, s, need, units, oldest, newest, from, p, stop, page)
    local left, time = need, oldest
    while p <= stop do
      local n, gap
      n, gap, p = next_entry(from, p)
      if not n then return nil end
      if n >= left then return time end
      left, time = left - n, time + gap
    end
    return page and later(key, s, need, units, page, newest) or newest
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

-- What is asked, and when. Most often it is to take, of one log.
local limits, next_arg, charging, now, grace = 1, 4, true, nil, 0
local steps, counters, current, state -- of limits that have them
local log, count = ARGV[1] == 'tl', false -- one, to be charged
if not log then
  local what = ARGV[1]:byte()
  limits, charging = #ARGV[1] - 1, what == 116 or what == 84 -- t, T
  next_arg = 2 * limits + 2
  -- On another clock than the server's a key lives a day longer, so that expiry never decides.
  if what < 97 then now, grace, next_arg = ARGV[next_arg] + 0, 86400000, next_arg + 1 end
  for l = 1, limits do
    local letter = ARGV[1]:byte(l + 1)
    if letter == 114 then -- r
      steps = steps or {}
      steps[l], next_arg = ARGV[next_arg] + 0, next_arg + 1
    elseif letter == 99 then -- c
      counters = counters or {}
      counters[l] = true
    end
  end
  log, count = ARGV[1] == 'Tl', ARGV[1] == 'tc' or ARGV[1] == 'Tc'
end
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + (time[2] - time[2] % 1000) / 1000
end

local KEYS, ARGV, call, pcall, pack, unpacked = KEYS, ARGV, redis.call, redis.pcall, struct.pack, struct.unpack
local cost, costs, first_quota, first_window = 1, ARGV[next_arg], ARGV[2] + 0, ARGV[3] + 0
local first_edge = now - first_window
local whole = grace > 0 and first_window + grace or ARGV[3] -- else it is text already
local reply, r, k, aside = {now, 0, 0, 0}, 1, 0, limits > 1 and {}
local oldest_of, leaver, charge, split -- of large logs, once they are made
local start, prefix, lives -- of a counter in the window of now
if count then
  start, lives = now - now % first_window, {} -- by units
  local n = start / first_window
  prefix = '\245\11' .. put(n < 0 and -2 * n - 1 or 2 * n)
end

for _ = 1, #KEYS / limits do
  local s, done
  if costs then cost, next_arg = ARGV[next_arg] + 0, next_arg + 1 end
  local charges = charging and cost > 0

  -- The usual request is of one limit and has room: in a small log, whose newest entry is one unit and did not come in
  -- this millisecond, in a log that is not there, or in a counter that was charged in the window of now.
  if (log or count) and charges then
    local key = KEYS[k + 1]
    s = pcall('GETRANGE', key, '0', '135') -- all of a small value, head and areas of a large log
    local size = #s -- an error has no length
    if count and size > #prefix and s:sub(1, #prefix) == prefix then
      local p = #prefix + 1
      local prev, cur, more = s:byte(p, p + 2)
      if more or prev > 0x7F then
        prev, p = get(s, p)
        cur, p = get(s, p or size + 1)
        if p ~= size + 1 then cur = nil end
      elseif cur and cur > 0x7F then
        cur = nil
      end
      if cur and prev <= 1e12 then
        local used, units = prev * (first_window - (now - start)) / first_window, cur + cost
        used = used - used % 1 + units
        if used <= first_quota then
          local value, life = units < 0x80 and prev < 0x80 and prefix .. string.char(prev, units), lives[units]
          if not life then -- as state has it
            local unseen = (first_window - 1) / units
            life = string.format('%d', start + 2 * first_window - (unseen - unseen % 1) - now + grace)
            lives[units] = life
          end
          call('PSETEX', key, life, value or prefix .. put(prev) .. put(units))
          r, done, reply[r + 1] = r + 1, true, 256 * units + 1
          if prev > 0 then r, reply[r], reply[r + 1] = r + 1, 256 * units + 129, prev end
        end
      end
    elseif log and size > 26 and size < 100 then
      local tag, newest, span, units, last = unpacked('>I2i7I6I6I6', s)
      local oldest, gap, p = newest - span, now - newest, 28
      while oldest <= first_edge and p <= size do
        local a, b, c = s:byte(p, p + 2) -- most entries are one unit, and have three bytes at most
        if a < 0x80 and a % 2 == 0 then
          oldest, units, p = oldest + a / 2, units - 1, p + 1
        elseif b and b % 2 == 0 and a >= 0x80 and a < 0xC0 then
          oldest, units, p = oldest + (a - 0x80) * 0x80 + b / 2, units - 1, p + 2
        elseif c and c % 2 == 0 and a >= 0xC0 and a < 0xE0 then
          oldest, units, p = oldest + (a - 0xC0) * 0x8000 + b * 0x80 + c / 2, units - 1, p + 3
        else
          break
        end
      end
      if oldest > first_edge and gap > 0 and gap < 0x100000 and last == 1 and tag == 0xF509 and units > 0
        and units + cost <= first_quota and (p <= size and oldest <= newest or units == 1 and oldest == newest) then
        local format, entry = '>I2i7I6I6I6c0I1', 2 * gap -- what was the newest gets a successor
        if gap >= 0x2000 then
          format, entry = '>I2i7I6I6I6c0I3', 0xC00000 + entry
        elseif gap >= 0x40 then
          format, entry = '>I2i7I6I6I6c0I2', 0x8000 + entry
        end
        units = units + cost
        call('PSETEX', key, whole, pack(format, 0xF509, now, now - oldest, units, cost, s:sub(p), entry))
        r, done, reply[r + 1] = r + 1, true, 256 * units + 1
      end
    elseif log and s == '' and cost <= first_quota then
      call('PSETEX', key, whole, pack('>I2i7I6I6I6', 0xF509, now, 0, cost, cost))
      r, done, reply[r + 1] = r + 1, true, 256 * cost + 1
    end
  end

  if not done then
    local allowed, garbage = true, 0
    -- How a limit stands, and what a charge would make of it: write says whether value is 1 all that is stored, 2 its head
    -- and areas, 3 what charge needs for it, or 4 what split needs. usual is the At that a reply leaves out.
    local first, newest, units, back, at, write, life, value, usual = r + 1, nil

    for l = 1, limits do
      local edge, room, sound, used = first_edge, first_quota - cost, false, nil
      if l > 1 then edge, room = now - ARGV[2 * l + 1], ARGV[2 * l] - cost end
      if cost == 0 then room = 1e13 end
      local key = KEYS[k + l]
      usual = now
      if l > 1 or not s then s = pcall('GETRANGE', key, '0', '135') end
      if counters and counters[l] then
        local window = ARGV[2 * l + 1] + 0
        if not current then current, state = counter(get, put, strange) end
        usual = now - now % window
        sound, newest, back, units, used = current(s, window, now)
        if used <= room and charges then
          at, write = newest, 1
          life, value = state(window, at, back, units + cost, now, grace)
        end
      else
        local size, tag, span, oldest, last, from, p, stop, page, total, back_size = #s, nil -- an error has no length
        newest, units, back = 0, 0, 0
        repeat -- once; it is left where what was found is not sound
          if size == 136 then
            tag, newest, span, units, last, total, back_size, p, stop = unpacked('>I2i7I6I6I6I6I1I1I1', s)
            if tag ~= 0xF50A or p > stop or stop > 50 or back_size > 50 then break end
            total, p, stop, page = total + units, 87 + p, 86 + stop, -1
          elseif size > 26 then
            tag, newest, span, units, last = unpacked('>I2i7I6I6I6', s)
            if tag ~= 0xF509 then break end
            p, stop = 28, size
          else
            sound = s == ''
            break
          end
          if last < 1 or units < last or units > 1e12 or newest > 2 ^ 52 or newest < -2 ^ 52 then break end
          if newest <= edge then
            newest, units, sound = 0, 0, true
            break
          end
          oldest, from = newest - span, s
          while oldest <= edge and p <= stop do
            local a, b, c = s:byte(p, p + 2) -- most entries are one unit, and have three bytes at most
            if c and c % 2 == 0 and a >= 0xC0 and a < 0xE0 then
              oldest, units, p = oldest + (a - 0xC0) * 0x8000 + b * 0x80 + c / 2, units - 1, p + 3
            elseif b and b % 2 == 0 and a >= 0x80 and a < 0xC0 then
              oldest, units, p = oldest + (a - 0x80) * 0x80 + b / 2, units - 1, p + 2
            elseif a < 0x80 and a % 2 == 0 then
              oldest, units, p = oldest + a / 2, units - 1, p + 1
            else
              local n, gap
              n, gap, p = next_entry(s, p)
              if not n then break end
              oldest, units = oldest + gap, units - n
            end
          end
          if not p then break end
          if p > stop and page then
            if not charge then oldest_of, leaver, charge, split = pages(next_entry) end
            units, oldest, from, p, stop, page = oldest_of(key, s, edge, newest)
            if not units then break end
          elseif oldest > newest or units < last or p > stop and (oldest < newest or units > last) then
            break
          end
          if units > room then -- quota are left once the oldest units have gone that are too many
            back = oldest
            if units > room + 1 then
              if not charge then oldest_of, leaver, charge, split = pages(next_entry) end
              back = leaver(key, s, units - room, units, oldest, newest, from, p, stop, page)
              if not back then break end
            end
          end
          sound = true
        until true
        if not sound then newest, units, back = 0, 0, 0 end
        used = units

        if charges and allowed and used <= room then
          -- A key lives until its limit is full again. The server counts from the TIME of this script, or, before 7.2,
          -- from a moment later: a key is never gone too soon.
          at, life = now, ARGV[2 * l + 1]
          if steps and steps[l] then at = now + -now % steps[l] end
          if at < newest and units > 0 then at = newest end
          if at > now or grace > 0 then life = at - now + life + grace end -- else it is text already
          if units == 0 then -- it begins anew
            write, value = 1, pack('>I2i7I6I6I6', 0xF509, at, 0, cost, cost)
          else
            local before, gap, entry = units - last, at - newest, ''
            if gap > 0 then -- what was the newest gets a successor
              before, entry = units, last == 1 and put(2 * gap) or put(2 * gap + 1) .. put(last)
            end
            local all = units + cost
            last = all - before
            if page then
              local base = (total - units) % 2 ^ 48 -- before the oldest entry
              if page < 0 and back_size + #entry <= 50 then
                write, value = 2, pack('>I2i7I6I6I6I6I1I1I1c0c0', 0xF50A, at, at - oldest, all, last, base,
                  back_size + #entry, p - 87, stop - 86, s:sub(37, 36 + back_size), entry)
              else
                write, value = 3, {key, s, life, at, at - oldest, all, last, base, from, p, stop, page, entry, newest}
              end
            elseif stop - p + #entry < 76 then -- a byte more, and it still fits into two areas: an entry has 12 at most
              write, value = 1, pack('>I2i7I6I6I6c0c0', 0xF509, at, at - oldest, all, last, from:sub(p, stop), entry)
            else
              write, value = 4, {at, at - oldest, all, last, from:sub(p, stop) .. entry}
            end
          end
        end
      end
      if not sound then
        if strange(s) == false then
          allowed, garbage = false, -1
          break
        end
        garbage = garbage + 2
      end
      if used > room then allowed = false end
      r = r + 1
      local head, n = r, 4 * units
      if newest ~= usual then n, r, reply[r + 1] = n + 1, r + 1, newest end
      if back ~= 0 then n, r, reply[r + 1] = n + 2, r + 1, back end
      reply[head] = n
      if aside and allowed and charges then aside[l] = {units, back, usual, at, write, life, value} end
    end

    local status = 0
    if garbage < 0 then
      r, reply[first] = first, -1
    elseif allowed and charges then
      r = first - 1
      for l = 1, limits do
        if aside then units, back, usual, at, write, life, value = unpack(aside[l], 1, 7) end
        local key = KEYS[k + l]
        units = units + cost
        if write == 1 then
          call('PSETEX', key, life, value)
        elseif write == 2 then
          call('SETRANGE', key, '0', value)
          call('PEXPIRE', key, life)
        else
          if not charge then oldest_of, leaver, charge, split = pages(next_entry) end
          if write == 4 then
            call('PSETEX', key, life, split(unpack(value)))
          elseif not charge(unpack(value)) then
            units, garbage = cost, garbage + 2
            call('PSETEX', key, life, pack('>I2i7I6I6I6', 0xF509, at, 0, cost, cost))
          end
        end
        r = r + 1
        local head, n = r, 4 * units
        if at ~= usual then n, r, reply[r + 1] = n + 1, r + 1, at end
        if back ~= 0 then n, r, reply[r + 1] = n + 2, r + 1, back end
        reply[head] = n
      end
      status = 1 + garbage
    elseif allowed then
      status = 1
    end
    if garbage >= 0 then reply[first] = 64 * reply[first] + status end
  end
  k = k + limits
end
for i = r + 1, #reply do reply[i] = nil end
return reply
