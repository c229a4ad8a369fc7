package manifest

import (
	"runtime"
	"testing"
)

// Rules are kept while somebody has them, and given up behind that; then they are made again.
func TestRulesAreKeptAsLongAsTheyAreUsed(t *testing.T) {
	kept := keptRules{file: "heartwood.dev_topics.yaml"}
	first, err := kept.load()
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	if second, err := kept.load(); err != nil || second != first {
		t.Errorf("made again while they were used: %v", err)
	}
	runtime.KeepAlive(first)
	for range 10 { // a finalizer within may hold them for a round
		runtime.GC()
		if kept.made.Value() == nil {
			break
		}
	}
	if kept.made.Value() != nil {
		t.Error("kept though nobody uses them")
	}
	if again, err := kept.load(); err != nil || again == nil {
		t.Errorf("not made again: %v", err)
	}
}

func TestRulesOfAFileThatIsNotThere(t *testing.T) {
	if _, err := (&keptRules{file: "none.yaml"}).load(); err == nil {
		t.Error("no error")
	}
}
