package brokerconfig

import (
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// groupBoundRows returns the bounds on the configs of single groups. The default of a bound is
// Kafka's default or, if the value for all groups is beyond it, that value.
func groupBoundRows() []*Property {
	const interval, session = "heartbeat.interval.ms", "session.timeout.ms"
	bound := func(name, standard, path string, beyond func(a, b int64) int64,
		bounded *field) *Property {
		all := "group.consumer." + name[len("min."):]
		return &Property{
			Name: "group.consumer." + name, Type: "int", Default: standard, Field: path,
			Doc: "The bound for the config consumer." + name[len("min."):] + " of a group, " +
				"by default " + standard + " or " + all + " if that is beyond it.",
			field: bounded,
			derive: func(value func(string) string) string {
				own, _ := strconv.ParseInt(standard, 10, 64)
				if cluster, err := strconv.ParseInt(value(all), 10, 64); err == nil {
					own = beyond(own, cluster)
				}
				return strconv.FormatInt(own, 10)
			},
		}
	}
	least := func(a, b int64) int64 { return min(a, b) }
	most := func(a, b int64) int64 { return max(a, b) }
	ofInterval := func(locate func(*v1alpha1.Groups) **metav1.Duration) *field {
		return milliseconds(shortestConsumerInterval, longestConsumerInterval, locate)
	}
	ofSession := func(locate func(*v1alpha1.Groups) **metav1.Duration) *field {
		return milliseconds(shortestConsumerSession, longestConsumerSession, locate)
	}
	return []*Property{
		bound("min."+interval, inMillis(5*time.Second), "spec.groups.minConsumerHeartbeatInterval",
			least, ofInterval(func(g *v1alpha1.Groups) **metav1.Duration {
				return &g.MinConsumerHeartbeatInterval
			})),
		bound("max."+interval, inMillis(15*time.Second), "spec.groups.maxConsumerHeartbeatInterval",
			most, ofInterval(func(g *v1alpha1.Groups) **metav1.Duration {
				return &g.MaxConsumerHeartbeatInterval
			})),
		bound("min."+session, inMillis(45*time.Second), "spec.groups.minConsumerSessionTimeout",
			least, ofSession(func(g *v1alpha1.Groups) **metav1.Duration {
				return &g.MinConsumerSessionTimeout
			})),
		bound("max."+session, inMillis(time.Minute), "spec.groups.maxConsumerSessionTimeout",
			most, ofSession(func(g *v1alpha1.Groups) **metav1.Duration {
				return &g.MaxConsumerSessionTimeout
			})),
	}
}

func inMillis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
