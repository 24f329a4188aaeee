# Run `make help` for the list. Every target works from the root of the repository, over every
# module that go.work names.

LISTEN = 127.0.0.1:8080
FUZZTIME = 10s
MUTATE =
BENCH =
SOAK ?= 1h

.PHONY: help run build test lint bench targets fuzz mutate cover soak clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-7s %s\n", $$1, $$2 }' Makefile

run: build ## start a limiter on http://127.0.0.1:8080 (LISTEN=... for another address)
	@exec bin/slidegate serve --listen $(LISTEN) --limit burst=20/1s --limit sustained=100/1m

build: ## the command, into bin/slidegate
	@scripts/need go
	go build -o bin/slidegate ./cmd/slidegate

test: ## install what the tests need if it is missing, then test every module with the race detector
	@scripts/need go cc curl redis-server nginx haproxy chromium valgrind
	@scripts/each-module go test -race -timeout 15m ./...

lint: ## gofmt, vet, staticcheck, tidy modules, and the rules for tests
	@scripts/need go
	@scripts/lint

bench: ## measure beside other limiters (BENCH="-only hot1" for a part, BENCH=-list for their names)
	@scripts/need go
	go run ./test/bench/compare $(BENCH)

targets: ## a line for each target of speed and memory: ok, MISSED, or FORBIDDEN by what a floor measures; under ten minutes
	@scripts/need go redis-server
	go run ./test/bench/compare -verdicts -enforce -rounds 2 $(BENCH)

fuzz: ## fuzz every fuzz target for FUZZTIME (10s)
	@scripts/need go
	@FUZZTIME=$(FUZZTIME) scripts/fuzz

mutate: ## make faults in the core and its scripts, and tell those that no test finds (MUTATE="-every 40" for some)
	@scripts/need go redis-server
	go run ./test/mutation $(MUTATE)

cover: ## how much of the root module the tests of all modules reach together, 95 % at least
	@scripts/need go cc redis-server nginx haproxy chromium valgrind
	@scripts/cover

soak: ## load, faults and reloads for SOAK (1h), and then every window and all memory is judged
	@scripts/need go redis-server
	@mkdir -p bin
	cd test && go test -count=1 -timeout 0 -v -run '^TestSoak$$' ./soak -for $(SOAK) -plot $(CURDIR)/bin/soak.svg

clean: ## remove bin
	rm -rf bin
