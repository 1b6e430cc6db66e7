package explore

import (
	"os"
	"testing"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

func TestMain(m *testing.M) {
	sampled.CollectRarely()
	os.Exit(m.Run())
}
