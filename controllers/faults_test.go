package controllers

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/operator/render"
	"heartwood.dev/heartwood/internal/placement"
	. "heartwood.dev/heartwood/test/kit/specs"
)

// diskFault is the fault that brokers report for a stopped log.
const diskFault = "storage error: log stopped: sync: input/output error"

var _ = Describe("A replica whose log has stopped", func() {
	var f *fixture
	// leader epoch in the rows that brokers 0 and 1 report; 0: they report no rows
	var epoch atomic.Int32
	BeforeEach(func(t *testing.T) {
		f = newFixture(t)
		epoch.Store(0)
		f.cluster(2)
		f.register(2)
		f.topic("orders", func(spec *v1alpha1.TopicSpec) {
			spec.Partitions, spec.Replicas = 1, new(int32(2))
		})
		f.serve("orders/0")
		for id := range int32(2) {
			server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter,
				_ *http.Request) {
				answer := report.Partitions{}
				if known := epoch.Load(); known != 0 {
					answer.Partitions = []report.Partition{{Broker: id, Topic: "orders",
						LeaderEpoch: known, Fault: diskFault}}
				}
				_ = json.NewEncoder(out).Encode(answer)
			}))
			t.Cleanup(server.Close)
			hosts.set(render.HTTPAddress("main", f.namespace, id), server.Listener.Addr().String())
		}
	})

	It("leads: the problem and condition Ready contain the cause, once it is reported",
		func(t *testing.T) {
			f.putState("orders/0", func(_ Gomega, state *partitionset.State) {
				state.Serving = false
				state.ISR = slices.DeleteFunc(slices.Clone(state.ISR),
					func(m placement.InSyncReplica) bool { return m.Broker != state.Leader })
			})
			f.expectProblem("orders", v1alpha1.ReasonLeaderStarting)
			epoch.Store(f.state(Default, "orders/0").LeaderEpoch)
			f.expectProblem("orders", v1alpha1.ReasonLeaderFailed, diskFault)
			expectReason(f.topicConditions("orders"), v1alpha1.ConditionReady,
				v1alpha1.ReasonPartitionsNotReady, "Partition 0: Broker ", diskFault)

			t.Log("the broker has restarted, and its last report is of an earlier leader epoch")
			epoch.Add(-1)
			f.expectProblem("orders", v1alpha1.ReasonLeaderStarting)
		})

	It("follows: the problem contains the cause", func(*testing.T) {
		f.putState("orders/0", func(_ Gomega, state *partitionset.State) {
			state.ISR = slices.DeleteFunc(slices.Clone(state.ISR),
				func(m placement.InSyncReplica) bool { return m.Broker != state.Leader })
		})
		f.expectProblem("orders", v1alpha1.ReasonUnderReplicated, "down or are copying")
		epoch.Store(f.state(Default, "orders/0").LeaderEpoch)
		f.expectProblem("orders", v1alpha1.ReasonUnderReplicated, "why they do not follow: broker ",
			diskFault)
	})
})
