package placement

import "testing"

func killed(s *BrokerState)   { s.Epoch, s.BootEpoch = 2, 1 }
func rebooted(s *BrokerState) { s.Epoch, s.BootEpoch = 2, 2 }

// TestReplicaWhoseMachineRanOnIsPreferred checks which replica leads after an unclean stop of all,
// if the machines of some have also stopped.
func TestReplicaWhoseMachineRanOnIsPreferred(t *testing.T) {
	all := func(zero, one, two func(*BrokerState)) map[int32]BrokerState {
		return map[int32]BrokerState{0: up(0, zero), 1: up(1, one), 2: up(2, two)}
	}
	lastLed1 := offline(led("012", "102"))
	for name, test := range map[string]struct {
		p            Partition
		brokers      map[int32]BrokerState
		allowUnclean bool
		leader       int32
	}{
		"only the machine of 2 ran on":     {lastLed1, all(rebooted, rebooted, killed), false, 2},
		"the last leader was only killed":  {lastLed1, all(killed, killed, rebooted), false, 1},
		"all were only killed":             {lastLed1, all(killed, killed, killed), false, 1},
		"the machines of all have stopped": {lastLed1, all(rebooted, rebooted, rebooted), false, 1},
		"unknown counts as stopped": {lastLed1, all(uncleanRestart, uncleanRestart, killed),
			false, 2},
		"not if it is outside the ISR":      {led("012", "0"), all(rebooted, killed, killed), false, 0},
		"after one that stopped gracefully": {lastLed1, all(cleanRestart, killed, killed), false, 0},
		"not while another member is down": {lastLed1,
			map[int32]BrokerState{0: up(0, rebooted), 2: up(2, killed)}, false, NoLeader},
		"allowed not to wait": {lastLed1,
			map[int32]BrokerState{0: up(0, rebooted), 2: up(2, killed)}, true, 2},
	} {
		d := Decide(test.p, test.brokers, Options{AllowUnclean: test.allowUnclean})
		if d.Leader != test.leader {
			t.Errorf("%s: got leader %d, want %d", name, d.Leader, test.leader)
		}
	}
}
