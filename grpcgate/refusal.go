package grpcgate

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

// refusal returns the error of a call that was not admitted, and its trailer.
func (g *Gate) refusal(ctx context.Context, o *httpgate.Outcome) (metadata.MD, error) {
	if o.Decision == nil {
		return nil, undecided(ctx, o.Err)
	}
	wait := o.Decision.RetryAfter() // 0 where no waiting will mend it
	trailer := metadataOf(o.Header)
	if g.pushback {
		trailer[pushbackName] = []string{pushback(ctx, wait)}
	}
	return trailer, exhausted(wait, o)
}

// undecided is the status of a call that was not admitted without a decision: it is denied, nobody can be
// counted for it, nobody waits for it any more, or the store could not be asked. What went wrong is no client's business.
func undecided(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case errors.Is(err, httpgate.ErrForbidden):
		return status.Error(codes.PermissionDenied, "the call is not allowed")
	case errors.Is(err, httpgate.ErrNoAddress):
		return status.Error(codes.Internal, "the call has no client address to count it under")
	case errors.Is(err, slidegate.ErrInvalidLimit):
		return status.Error(codes.Internal, "the limits of the call do not go together")
	}
	return status.Error(codes.Unavailable, "the rate limiter is unavailable")
}

// exhausted is the status of a refusal, with the details of google/rpc/error_details.proto. The subject
// is the limit, never the key: keys are people.
func exhausted(wait time.Duration, o *httpgate.Outcome) error {
	why := "quota exceeded"
	var details []protoadapt.MessageV1
	if wait > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	}
	if o.Banned {
		why = "abnormal usage detected"
		details = append(details, &errdetails.ErrorInfo{Reason: "ABNORMAL_USAGE_DETECTED", Domain: "slidegate"})
	}
	if len(o.Violated) > 0 {
		failure := &errdetails.QuotaFailure{}
		for _, name := range o.Violated {
			failure.Violations = append(failure.Violations, &errdetails.QuotaFailure_Violation{
				Subject: "policy:" + name, Description: why, QuotaId: name,
			})
		}
		details = append(details, failure)
	}
	refused := status.New(codes.ResourceExhausted, why)
	if detailed, err := refused.WithDetails(details...); err == nil {
		refused = detailed
	}
	return refused.Err()
}

const pushbackName = "grpc-retry-pushback-ms"

// pushback is how long a client should wait before it retries, in whole milliseconds, negative where
// it should not: what can never fit, or not before the deadline (gRFC A6, "Pushback").
func pushback(ctx context.Context, wait time.Duration) string {
	deadline, limited := ctx.Deadline()
	if wait <= 0 || limited && time.Until(deadline) < wait {
		return "-1"
	}
	return strconv.FormatInt(wait.Milliseconds(), 10)
}

// metadataOf returns fields under the names that HTTP/2 has for them.
func metadataOf(h http.Header) metadata.MD {
	fields := make(metadata.MD, len(h)+1)
	for name, values := range h {
		fields[strings.ToLower(name)] = values
	}
	return fields
}
