package httpport

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore/cleaner/passlog"
)

const (
	// passesDefault is the number of passes in a response if the parameter limit is absent.
	passesDefault = 50
	// passesWithSteps is the maximum number of passes in a response with steps.
	passesWithSteps = 16
)

// passesQuery is a request for passes. Broker -1 selects all brokers.
type passesQuery struct {
	passlog.Filter
	broker int32
}

// parsePassesQuery parses the request's parameters.
func parsePassesQuery(query url.Values) (q passesQuery, err error) {
	q.Topics = query["topic"]
	switch text := query.Get("steps"); text {
	case "", "false":
	case "true":
		q.Steps = true
	default:
		return q, fmt.Errorf("%w: steps=%q is neither true nor false", errParameter, text)
	}
	otherwise, most := int64(passesDefault), int64(report.PassesMax)
	if q.Steps {
		otherwise, most = passesWithSteps, passesWithSteps
	}
	values := make([]int64, 5)
	for i, row := range []struct {
		name                   string
		otherwise, least, most int64
	}{{"broker", -1, 0, idMax}, {"partition", -1, 0, idMax}, {"id", 0, 1, offsetMax},
		{"before", 0, 1, offsetMax}, {"limit", otherwise, 1, most}} {
		if values[i], err = numberIn(query, row.name, row.otherwise, row.least, row.most); err != nil {
			return q, err
		}
	}
	q.broker, q.Partition = int32(values[0]), int32(values[1])
	q.ID, q.Before, q.Limit = values[2], values[3], int(values[4])
	return q, nil
}

// handlePasses adds the passes endpoint.
func handlePasses(mux *http.ServeMux, brokers func() Brokers) {
	mux.HandleFunc("GET /api/v1/passes", func(w http.ResponseWriter, r *http.Request) {
		q, err := parsePassesQuery(r.URL.Query())
		var answer report.Passes
		if err == nil {
			answer, err = brokers().passes(q)
		}
		respondReport(w, answer, err)
	})
}

// passes returns the passes of these brokers.
func (all Brokers) passes(q passesQuery) (report.Passes, error) {
	answer := report.Passes{Passes: []report.PartitionPass{}}
	if len(all) == 0 {
		return answer, ErrStarting
	}
	more := false
	for _, b := range all {
		if q.broker >= 0 && b.ID != q.broker {
			continue
		}
		passes, cut := b.Cleaner.Passes(q.Filter)
		answer.Passes, more = append(answer.Passes, passes...), more || cut
	}
	slices.SortStableFunc(answer.Passes, func(a, b report.PartitionPass) int {
		return cmp.Or(cmp.Compare(b.ID, a.ID), cmp.Compare(a.Broker, b.Broker))
	})
	if len(answer.Passes) > q.Limit {
		answer.Passes, more = answer.Passes[:q.Limit], true
	}
	if n := len(answer.Passes); more && n > 0 {
		answer.Next = &answer.Passes[n-1].ID
	}
	return answer, nil
}
