package metadata

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"heartwood.dev/heartwood/test/kit/seed"
)

func TestTopicNamesFollowKafka(t *testing.T) {
	for _, name := range []string{"a", "Orders_v2.eu-west", "__consumer_offsets", "...", "-",
		strings.Repeat("x", 249)} {
		if err := CheckTopicName(name); err != nil {
			t.Errorf("%q was rejected: %v", name, err)
		}
	}
	for _, name := range []string{"", ".", "..", "a b", "a/b", "ü", "a\x00", "a\n",
		strings.Repeat("x", 250)} {
		if err := CheckTopicName(name); !errors.Is(err, ErrInvalidTopicName) {
			t.Errorf("%.30q: error %v, want ErrInvalidTopicName", name, err)
		}
	}
}

func TestResourceName(t *testing.T) {
	for topic, want := range map[string]string{
		"tickets":            "tickets",
		"eu.tickets-2":       "eu.tickets-2",
		"Tickets":            "tickets-3d131368",
		"my_topic":           "my-topic-40f406a0",
		"a..b":               "a-b-f62b4241",
		"__consumer_offsets": "consumer-offsets-189fe61b",
		"___":                "topic-bda25155",
	} {
		if got := ResourceName(topic); got != want {
			t.Errorf("resource name of %s: got %s, want %s", topic, got, want)
		}
	}
}

// TestResourceNamesAreDNSNamesAndDiffer checks that each resource name is a DNS name, and that
// different topics have different resource names.
func TestResourceNamesAreDNSNamesAndDiffer(t *testing.T) {
	const letters = "aAbB09._-"
	for seed := range seed.Sequence(t, 20) {
		random := rand.New(rand.NewPCG(seed, 3))
		topics := map[string]string{}
		for range 1000 {
			name := make([]byte, 1+random.IntN(6))
			if random.IntN(10) == 0 {
				name = make([]byte, 1+random.IntN(249))
			}
			for i := range name {
				name[i] = letters[random.IntN(len(letters))]
			}
			topic := string(name)
			resource := ResourceName(topic)
			if faults := validation.IsDNS1123Subdomain(resource); len(faults) > 0 ||
				len(resource) > 63 {
				t.Fatalf(
					"seed %d: resource name of topic %q is %q, which is not a DNS name of at most 63 bytes: %v",
					seed,
					topic,
					resource,
					faults,
				)
			}
			if other, taken := topics[resource]; taken && other != topic {
				t.Fatalf("seed %d: %q and %q have the same resource %q", seed, topic, other,
					resource)
			}
			topics[resource] = topic
		}
	}
}
