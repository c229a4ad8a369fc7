//go:build compat

package compat

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"heartwood.dev/heartwood/test/kit/process"
)

// TestKafkaJS runs testdata/kafkajs.js on three brokers. NODE_PATH names the folder that contains
// the module kafkajs.
func TestKafkaJS(t *testing.T) {
	proof := newRow(t, "kafkajs",
		"create topics with default arguments and with assigned replicas, add partitions; produce; read in a group; three brokers")
	node := need(t, "node", "-e", "require('kafkajs')")
	t.Parallel()
	s := process.NewSetup(t, 3, strings.Replace(clusterManifest, "brokers: 1",
		"brokers: 3, topicDefaults: {partitions: 4, replicas: 2}", 1), topicManifest)
	bootstrap, _ := process.Start(t, s.Args()...).Ready(t)
	var records, rejected []string
	replicas := map[string][][]int32{}
	text := output(t, "", node, "testdata/kafkajs.js", strings.Join(bootstrap, ","))
	for decoder := json.NewDecoder(strings.NewReader(text)); decoder.More(); {
		var l struct {
			Step, Version, Name, Topic, Value, Error string
			Partitions                               [][]int32
		}
		if err := decoder.Decode(&l); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		switch l.Step {
		case "client":
			proof.version = l.Version
		case "topic":
			replicas[l.Name] = l.Partitions
		case "rejected":
			rejected = append(rejected, l.Error)
		case "record":
			records = append(records, l.Topic+"="+l.Value)
		default:
			t.Errorf("step %s:\n%s", l.Step, text)
		}
	}
	if got := fmt.Sprint(replicas["placed"]); got != "[[2 0] [0 1] [1 2]]" {
		t.Errorf("topic with assigned replicas: replicas %s", got)
	}
	if got := replicas["plain"]; len(got) != 4 || len(got[0]) != 2 {
		t.Errorf("topic with default arguments: replicas %v, want 4 partitions with 2", got)
	}
	if want := slices.Repeat([]string{"INVALID_REPLICA_ASSIGNMENT"}, 3); !slices.Equal(rejected,
		want) {
		t.Errorf("wrong assignments: errors %v", rejected)
	}
	slices.Sort(records)
	if !slices.Equal(records, []string{"placed=placed", "plain=plain"}) {
		t.Errorf("read %v", records)
	}
}
