package main

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/internal/broker"
	"heartwood.dev/heartwood/internal/broker/httpport"
)

func TestPprofFlagOfBrokerAndOperator(t *testing.T) {
	status := func(handler http.Handler) int {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet,
			"/debug/pprof/heap", nil))
		return answer.Code
	}
	for enabled, want := range map[bool]int{false: http.StatusNotFound, true: http.StatusOK} {
		var starting atomic.Pointer[broker.Broker]
		served := brokerHTTP(&starting, prometheus.NewRegistry())
		served.Pprof = enabled
		got := status(httpport.New(served))
		if got != want {
			t.Errorf("broker with pprof=%t: got status %d, want %d", enabled, got, want)
		}
		// The operator's metrics server registers each of these handlers under its path.
		operator := http.NewServeMux()
		options := operatorFlags{pprof: enabled}.metricsOptions()
		for path, handler := range options.ExtraHandlers {
			operator.Handle(path, handler)
		}
		if got := status(operator); got != want {
			t.Errorf("operator with pprof=%t: got status %d, want %d", enabled, got, want)
		}
	}
	for _, command := range []string{"broker", "dev", "operator"} {
		found, _, err := rootCommand().Find([]string{command})
		if err != nil {
			t.Fatal(err)
		}
		if flag := found.Flags().Lookup("pprof"); flag == nil || flag.DefValue != "false" {
			t.Errorf("%s: flag --pprof is %+v, want one that is off by default", command, flag)
		}
	}
}
