package httpport

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"heartwood.dev/heartwood/api/report"
)

func TestMayStopOverHTTP(t *testing.T) {
	handler := New(Options{MayStop: func(id int32) (report.MayStop, error) {
		if id == 9 {
			return report.MayStop{}, ErrStarting
		}
		return report.MayStop{Broker: id, MayStop: true}, nil
	}})
	for path, want := range map[string]int{"1": http.StatusOK, "9": http.StatusServiceUnavailable,
		"x": http.StatusBadRequest, "-1": http.StatusBadRequest,
		"4294967296": http.StatusBadRequest} {
		response := httptest.NewRecorder()
		handler.ServeHTTP(response,
			httptest.NewRequest(http.MethodGet, "/api/v1/may-stop/"+path, nil))
		if response.Code != want {
			t.Errorf("broker %s: got status %d, want %d", path, response.Code, want)
		}
		var answer report.MayStop
		if err := json.Unmarshal(response.Body.Bytes(), &answer); err != nil ||
			want == http.StatusOK && !answer.MayStop {
			t.Errorf("broker %s: got %+v, error %v", path, answer, err)
		}
	}
}
