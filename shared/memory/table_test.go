package memory_test

import (
	"testing"

	"toolrounds/shared/memory"
	"toolrounds/shared/table"
	"toolrounds/shared/table/tabletest"
)

func TestTable(t *testing.T) {
	tabletest.Run(t, func(*testing.T) table.Table { return new(memory.Table) })
}
