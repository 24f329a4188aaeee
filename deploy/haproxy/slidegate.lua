-- Asks slidegate about a request before HAProxy passes it on: http-request lua.slidegate BACKEND open|closed
--
-- The backend has one server, which is slidegate.
-- A refusal goes to the client as it is. The fields of a request that is admitted are left in the variables
-- txn.slidegate_ratelimit and txn.slidegate_policy. Without an answer, or with a 5xx, the request passes (open)
-- or gets 503 (closed).

local timeout = 1000 -- milliseconds for an answer

-- Fields of the client that are of its connection or its body, or that only HAProxy may set.
local dropped = {
	["host"] = true, ["connection"] = true, ["content-length"] = true, ["transfer-encoding"] = true, ["expect"] = true,
	["upgrade"] = true, ["te"] = true, ["trailer"] = true, ["keep-alive"] = true,
	["x-original-method"] = true, ["x-original-uri"] = true,
	["x-forwarded-host"] = true, ["x-forwarded-proto"] = true, ["x-forwarded-for"] = true,
}

-- Fields of an answer that HAProxy writes itself.
local written = { ["connection"] = true, ["content-length"] = true, ["transfer-encoding"] = true, ["date"] = true }

-- lists returns fields as lists that begin at 1, without some.
local function lists(fields, without)
	local all = {}
	for name, values in pairs(fields) do
		if not without[name] then
			local list = {}
			for i = 0, #values do
				list[#list + 1] = values[i]
			end
			all[name] = list
		end
	end
	return all
end

local function question(txn)
	local fields = lists(txn.http:req_get_headers(), dropped)
	fields["x-original-method"] = { txn.sf:method() }
	fields["x-original-uri"] = { txn.sf:url() }
	fields["x-forwarded-host"] = { txn.sf:req_fhdr("host") }
	fields["x-forwarded-proto"] = { txn.f:ssl_fc() == 1 and "https" or "http" }
	fields["x-forwarded-for"] = { txn.sf:src() }
	return fields
end

-- keep leaves a field of an answer in a variable.
local function keep(txn, variable, values)
	if values then
		txn:set_var(variable, table.concat(values, ", "))
	end
end

-- ask returns slidegate's answer, or nil while its check fails.
local function ask(txn, backend)
	if txn.f:nbsrv(backend) == 0 then
		return nil
	end
	local _, server = next(core.backends[backend].servers)
	return core.httpclient():get({ url = "http://" .. server:get_addr() .. "/auth", headers = question(txn), timeout = timeout })
end

core.register_action("slidegate", { "http-req" }, function(txn, backend, failing)
	local answer = ask(txn, backend)
	local status = answer and answer.status or 0
	if status >= 200 and status < 300 then
		local fields = lists(answer.headers, written)
		keep(txn, "txn.slidegate_ratelimit", fields["ratelimit"])
		keep(txn, "txn.slidegate_policy", fields["ratelimit-policy"])
	elseif status >= 400 and status < 500 then
		txn:done(txn:reply({ status = status, headers = lists(answer.headers, written), body = answer.body }))
	elseif failing ~= "open" then
		txn:done(txn:reply({ status = 503 }))
	end
end, 2)
