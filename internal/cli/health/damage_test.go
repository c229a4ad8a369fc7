package health

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// TestDamage checks the findings about damage. Unrepaired damage is a finding about the partition,
// with the broker, the file and the position, and so is damage that the status does not list.
// Repaired damage is not a finding.
func TestDamage(t *testing.T) {
	inFile := func(partition, file string, position int64) v1alpha1.ScrubFinding {
		return v1alpha1.ScrubFinding{Partition: partition, File: file, Position: position,
			Problem: "checksum"}
	}
	repaired := inFile("orders-eu-1", "orders-eu-1/7.index", 5)
	repaired.RepairedTime = new(metav1.NewTime(now))
	const (
		prefix = "warning %s DamageFound Broker %d has found damage at rest that it could not repair: "
		suffix = damageRunbook + " kubectl heartwood scrub" + scope
	)
	for name, c := range map[string]struct {
		scrub *v1alpha1.BrokerScrub
		want  []string
	}{
		"no report":    {nil, nil},
		"no damage":    {&v1alpha1.BrokerScrub{}, nil},
		"all repaired": {&v1alpha1.BrokerScrub{Findings: []v1alpha1.ScrubFinding{repaired}}, nil},
		"records": {&v1alpha1.BrokerScrub{Damaged: 1, Findings: []v1alpha1.ScrubFinding{repaired,
			inFile("orders-eu-1", "orders-eu-1/7.log", 61), inFile("orders-eu-1", "orders-eu-1/7.index", 8)}},
			[]string{fmt.Sprintf(prefix, "Partition orders-eu/1", 2) + "file orders-eu-1/7.log, " +
				"position 61: checksum; file orders-eu-1/7.index, position 8: checksum." + suffix}},
		"files of the data directory, and more than is listed": {&v1alpha1.BrokerScrub{Damaged: 3,
			Findings: []v1alpha1.ScrubFinding{inFile("", "cluster-id", 0)}}, []string{
			fmt.Sprintf(prefix, "Broker 2", 2) + "file cluster-id, position 0: checksum." + suffix,
			"warning Broker 2 DamageFound The broker has found damage in 3 segments; its log " +
				"contains the files that the status does not list." + suffix}},
	} {
		in := Input{Cluster: healthy(), Now: now}
		in.Cluster.Status.Brokers = []v1alpha1.BrokerStatus{{ID: 2, Scrub: c.scrub}}
		var got []string
		for _, f := range Findings(in) {
			got = append(got, strings.Join([]string{string(f.Severity), f.Subject, f.Reason,
				f.Message, f.Next}, " "))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
