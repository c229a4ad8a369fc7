package v1alpha1

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestParseBrokerLeaseName(t *testing.T) {
	for _, cluster := range []string{"main", "a-broker-7", "broker"} {
		for _, broker := range []int32{0, 7, 999} {
			gotCluster, gotBroker, ok := ParseBrokerLeaseName(BrokerLeaseName(cluster, broker))
			if !ok || gotCluster != cluster || gotBroker != broker {
				t.Errorf("%s %d: parsed as %s %d, %t", cluster, broker, gotCluster, gotBroker, ok)
			}
		}
	}
	for _, name := range []string{"", "main", "main-broker-", "main-broker-x", "main-broker-+1",
		"main-broker--1", "main-broker-01", "main-broker-99999999999"} {
		if cluster, broker, ok := ParseBrokerLeaseName(name); ok {
			t.Errorf("%q is not the name of a broker's Lease, and was parsed as %s %d", name, cluster, broker)
		}
	}
}

func TestOlderThanIsATotalOrder(t *testing.T) {
	created := func(name string, second int64) *Topic {
		return &Topic{ObjectMeta: metav1.ObjectMeta{Name: name,
			CreationTimestamp: metav1.NewTime(time.Unix(second, 0))}}
	}
	for _, pair := range [][2]*Topic{{created("b", 1), created("a", 2)},
		{created("a", 1), created("b", 1)}} {
		if !pair[0].OlderThan(pair[1]) || pair[1].OlderThan(pair[0]) || pair[0].OlderThan(pair[0]) {
			t.Errorf("%v and %v", pair[0].ObjectMeta, pair[1].ObjectMeta)
		}
	}
}
