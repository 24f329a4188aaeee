-- The exact log that many programs keep in a sorted set: a member for every unit, under its time. It answers
-- what ours answers, in the fewest commands.
--
--   KEYS   the log
--   ARGV   quota, window, cost, what tells the members of this request from all others
--   reply  1 or 0, remaining, time until the request fits, time until the log is empty; in milliseconds

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local key, quota, window, cost = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', key, '-inf', now - window)
local used = redis.call('ZCARD', key)
local newest = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2]
if used + cost <= quota then
  -- Recorded time never runs back, or a clock that is set back would free quota early.
  local at, members = newest and math.max(now, newest) or now, {}
  for i = 1, cost do
    members[2 * i - 1], members[2 * i] = at, ARGV[4] .. '-' .. i
  end
  redis.call('ZADD', key, unpack(members))
  redis.call('PEXPIRE', key, at == now and ARGV[2] or at + window - now) -- as text it is quicker
  return {1, quota - used - cost, 0, at + window - now}
end
local leaver = used + cost - quota - 1
local time = redis.call('ZRANGE', key, leaver, leaver, 'WITHSCORES')[2]
return {0, quota - used, time + window - now, newest + window - now}
