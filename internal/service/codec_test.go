package service_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/service"
	"github.com/perdure/perdure/internal/web"
)

// A request that finds no room is told to come back, and not begun.
func TestCodecIsBounded(t *testing.T) {
	t.Parallel()
	bodies := web.NewBodies(4<<20, 10*time.Millisecond)
	server := service.NewCodec(service.CodecOptions{Callers: auth.Everybody{}, Policy: &auth.Policy{}, Bodies: bodies})
	ask := func() *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		server.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/decode", strings.NewReader(`{"payloads":[{"data":"`+strings.Repeat("eHh4", 1<<19)+`"}]}`)))
		return answer
	}
	free, err := bodies.Work(t.Context(), web.Caller("", httptest.NewRequest(http.MethodPost, "/decode", nil)), 2<<20)
	if err != nil {
		t.Fatal(err)
	}
	if got := ask(); got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") == "" {
		t.Errorf("without room it is answered %d, %v", got.Code, got.Header())
	}
	free()
	if got := ask(); got.Code != http.StatusOK {
		t.Errorf("with room it is answered %d: %s", got.Code, got.Body)
	}
}
