package local

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
)

// version2 is a complete file of version 2.
const version2 = `{
  "version": 2,
  "clusterId": "Vx0hXnY7Q0W2p1a0m3l6bA",
  "brokers": 3,
  "brokerEpochs": {
    "0": 4
  },
  "topics": [
    {
      "name": "tickets",
      "id": "0S1Yt0aGQ5mX9S8hq3sYxQ",
      "origin": "manifest",
      "spec": {
        "cluster": "demo",
        "partitions": 1,
        "cleanupPolicy": "Compact",
        "reclaimPolicy": "Retain"
      },
      "partitions": [
        {
          "replicas": [
            2,
            1
          ],
          "target": [
            2,
            0
          ],
          "assignments": {
            "1": "x",
            "2": "y"
          },
          "leaderEpoch": 4,
          "unprovenEpoch": 3,
          "isr": [
            {
              "broker": 2,
              "epoch": 3,
              "directory": "Zx0hXnY7Q0W2p1a0m3l6bA"
            }
          ],
          "leaderDirectory": "Yx0hXnY7Q0W2p1a0m3l6bA"
        }
      ]
    }
  ],
  "retained": {
    "old": [
      {
        "replicas": [
          7
        ],
        "leaderEpoch": 6,
        "isr": [
          {
            "broker": 7,
            "epoch": 2
          }
        ]
      }
    ]
  }
}
`

// TestDecodeVersion2: a file of version 2 has the same content in version 3: assignments with the
// targets of reassignments, replicas, ISR, leader epochs, incarnation ids and directories.
func TestDecodeVersion2(t *testing.T) {
	d, err := decode([]byte(version2))
	if err != nil {
		t.Fatal(err)
	}
	content, err := d.encode()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(version3, string(content)); diff != "" {
		t.Errorf("file (-want +got):\n%s", diff)
	}
	got := d.placed(partitionset.Key{Topic: "tickets"})
	want := placement.Partition{
		Replicas: []int32{2, 1}, Target: []int32{2, 0}, Leader: metadata.NoBroker,
		ReplicaIncarnations: map[int32]string{1: "x", 2: "y"}, LeaderEpoch: 4, UnprovenEpoch: 3,
		ISR: []placement.InSyncReplica{
			{Broker: 2, Epoch: 3, Directory: "Zx0hXnY7Q0W2p1a0m3l6bA"}},
		LeaderDirectory: "Yx0hXnY7Q0W2p1a0m3l6bA",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("partition (-want +got):\n%s", diff)
	}
}

// version3 is version2 after its conversion.
const version3 = `{
  "version": 3,
  "clusterId": "Vx0hXnY7Q0W2p1a0m3l6bA",
  "brokers": 3,
  "brokerEpochs": {
    "0": 4
  },
  "topics": [
    {
      "name": "tickets",
      "id": "0S1Yt0aGQ5mX9S8hq3sYxQ",
      "origin": "manifest",
      "spec": {
        "cluster": "demo",
        "partitions": 1,
        "cleanupPolicy": "Compact",
        "reclaimPolicy": "Retain"
      }
    }
  ],
  "assignments": {
    "old/0": "7 - retained",
    "tickets/0": "2,0 0S1Yt0aG"
  },
  "partitions": {
    "old/0": "-@6? 7:2 - 1",
    "tickets/0": "-@4? 2:3,1 y,x 1 dir=Yx0hXnY7Q0W2p1a0m3l6bA unproven=3"
  },
  "directories": {
    "2:3": "Zx0hXnY7Q0W2p1a0m3l6bA"
  }
}
`

// TestDecodeVersion1: in version 1 every partition has one replica. If the partition has had a
// leader, this replica becomes the ISR.
func TestDecodeVersion1(t *testing.T) {
	d, err := decode(
		[]byte(
			`{"version": 1, "clusterId": "Vx0hXnY7Q0W2p1a0m3l6bA", "brokers": 1, "brokerEpochs": {"0": 4}, "topics": [
		{"name": "a", "id": "0S1Yt0aGQ5mX9S8hq3sYxQ", "origin": "kafka", "spec": {"cluster": "demo", "partitions": 2},
		 "partitions": [{"replicas": [0], "leaderEpoch": 4}, {"replicas": [0], "leaderEpoch": 0}]}],
		"retained": {"b": [{"replicas": [0], "leaderEpoch": 2}]}}`,
		),
	)
	if err != nil {
		t.Fatal(err)
	}
	want := []placement.InSyncReplica{{Broker: 0, Epoch: 4}}
	if diff := cmp.Diff(want, d.placed(partitionset.Key{Topic: "a"}).ISR); diff != "" {
		t.Errorf("ISR (-want +got):\n%s", diff)
	}
	if got := d.placed(partitionset.Key{Topic: "a", Index: 1}); got.ISR != nil {
		t.Errorf("ISR of a partition without a leader: got %v, want none", got.ISR)
	}
	retained, _ := d.set.Get(partitionset.Key{Topic: "b"})
	if diff := cmp.Diff(want, retained.Placed().ISR); diff != "" || !isRetained(retained) ||
		d.Version != 3 {
		t.Errorf("version %d; ISR of a retained partition (-want +got):\n%s", d.Version, diff)
	}
}
