package rediscases

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/test/redistest"
)

// fieldCases are faults that were reported of other rate limiters, by the id that they have in
// testdata/field-cases.json of the module. Each function is what the case says, on a real server,
// which is empty when it begins.
var fieldCases = map[string]func(*testing.T, *redistest.Server){
	"BND-04": steps(waitIsThatOfTheOldest),
	"BND-07": hotKey,
	"BND-08": windowBelowASecond,
	"CLK-01": clockTenSecondsLate,
	"CLK-03": clockAMillisecondBehind,
	"CLK-04": timeOfTheServer,
	"KEY-11": keysOfSeveralParts,
	"HDR-08": sameFieldsFromBothStores,
	"RDS-01": openWithNobodyThere,
	"RDS-02": closedWithNobodyThere,
	"RDS-03": openWithASilentRedis,
	"RDS-05": fiveLimitsOneTimeout,
	"RDS-06": refusalIsNoFailure,
	"RDS-07": sharesOfAFallback,
	"RDS-08": flushedScripts,
	"RDS-10": lostReply,
	"RDS-11": clusterOfOneNode,
	"RDS-14": lostExpiry,
	"RDS-15": expiriesInMilliseconds,
	"RDS-17": redisComesLate,
	"RDS-18": repliesThatAreNone,
	"RDS-19": deadSeed,
	"MEM-06": oneShotKeys,
	"MEM-08": refusalsAreNotStored,
	"HOT-05": instancesInTurn,
	"RAC-02": processesAtOnce,
	"RAC-04": oneInstant,
	"RAC-06": firstRequestIsCharged,
	"OVF-03": hugeQuotas,
	"CST-05": steps(waitOfSeveralUnits),
	"MUL-01": refusedRequestsPayNothing,
	"MUL-06": stackedLimits,
	"CFG-05": quotaRaised,
	"DYN-02": blockedAndUnlimited,
	"RSP-03": twoHooks,
	"MET-04": outageInTheLog,
	"FAL-04": failuresOnly,
	"FAL-07": refundFails,
	"REF-01": reserveAndSettle,
	"REF-02": refundOfNothing,
}

// notHere are the cases that are not run, and why.
var notHere = map[string]string{
	"HOT-03": "there is no memory of refusals in the process yet: every request asks Redis, as the case allows",
	"BAN-04": "whoever is blocked for good asks no store: TestFieldCases of the module test runs it",
}

// aboutRedis tells whether a case is to hold on Redis: by the surface it names first, or by what it says.
func aboutRedis(setup string, steps []string) bool {
	surface := regexp.MustCompile(`^\[([a-z]+\+)*redis(\+[a-z]+)*\]`)
	return surface.MatchString(setup) || strings.Contains(setup+strings.Join(steps, " "), "Redis")
}

// TestFieldCases runs every case about Redis, and fails if one is neither run nor explained.
func TestFieldCases(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "testdata", "field-cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Shared []struct {
			ID, Setup, Why string
			Steps          []string
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	server := redistest.Standalone(t)
	known := map[string]bool{}
	for _, c := range file.Shared {
		if !aboutRedis(c.Setup, c.Steps) {
			continue
		}
		known[c.ID] = true
		run, why := fieldCases[c.ID], notHere[c.ID]
		switch {
		case run != nil && why != "":
			t.Errorf("%s is both run and explained", c.ID)
		case run != nil:
			server.Flush()
			t.Run(c.ID, func(t *testing.T) { run(t, server) })
		case why == "":
			t.Errorf("%s is neither run nor explained: %s", c.ID, c.Why)
		}
	}
	for id := range fieldCases {
		if !known[id] {
			t.Errorf("%s is no case about Redis", id)
		}
	}
	for id := range notHere {
		if !known[id] {
			t.Errorf("%s is no case about Redis", id)
		}
	}
}
