package httpgate

import (
	"net/http"
	"strconv"
	"strings"
)

// A Problem is a body of application/problem+json, RFC 9457. The three types that end in a name are
// those of draft-ietf-httpapi-ratelimit-headers-11 section 5.
type Problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail,omitempty"`
	Instance string   `json:"instance,omitempty"`
	Violated []string `json:"violated-policies,omitempty"`
}

const problemTypes = "https://iana.org/assignments/http-problem-types#"

// QuotaExceeded is the body of a refusal: status 429 and the names of the limits that refused.
func QuotaExceeded(violated ...string) Problem {
	return Problem{
		Type:  problemTypes + "quota-exceeded",
		Title: "Request cannot be satisfied as assigned quota has been exceeded", Status: http.StatusTooManyRequests, Violated: violated,
	}
}

// ReducedCapacity is for limits that are lower for now since the server has less to give: 503.
func ReducedCapacity(violated ...string) Problem {
	return Problem{
		Type:  problemTypes + "temporary-reduced-capacity",
		Title: "Request cannot be satisfied due to temporary server capacity constraints", Status: http.StatusServiceUnavailable, Violated: violated,
	}
}

// AbnormalUsage is for rules against patterns rather than amounts: 429.
func AbnormalUsage(violated ...string) Problem {
	return Problem{
		Type:  problemTypes + "abnormal-usage-detected",
		Title: "Request not satisfied due to detection of abnormal request pattern", Status: http.StatusTooManyRequests, Violated: violated,
	}
}

// Unavailable is the body where a request could not be decided and the gate fails closed. No quota
// was exceeded, so none of the three types fits: about:blank, 503.
func Unavailable() Problem {
	return Problem{Type: "about:blank", Title: "Service Unavailable", Status: http.StatusServiceUnavailable}
}

// ServeHTTP answers with the problem: as JSON, or as plain text to a client that does not accept
// JSON. The answer is not to be stored (RFC 6585 section 4), and one to HEAD has no body.
func (p Problem) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	negotiated(p).ServeHTTP(w, r)
}

// acceptsJSON tells whether a client takes application/problem+json: one that does not say what it
// takes does, and so does one that takes any JSON.
func acceptsJSON(accept []string) bool {
	if len(accept) == 0 {
		return true
	}
	for _, line := range accept {
		for line != "" {
			var part string
			part, line, _ = strings.Cut(line, ",")
			if mediaRangeTakesJSON(part) {
				return true
			}
		}
	}
	return false
}

func mediaRangeTakesJSON(part string) bool {
	name, parameters, _ := strings.Cut(part, ";")
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "*/*", "application/*", "application/json", "application/problem+json":
	default:
		return false
	}
	for parameters != "" {
		var p string
		p, parameters, _ = strings.Cut(parameters, ";")
		if q, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(p)), "q="); ok {
			weight, err := strconv.ParseFloat(q, 64)
			return err == nil && weight > 0
		}
	}
	return true
}
