package birth

// Scopes returns scopes of up to two seconds each, and wider scopes of up to twenty.
func Scopes() (small, wide []Options) {
	apart := [][2]int{{0, 3}, {0, 4}, {1, 3}, {1, 4}}
	small = []Options{
		{Expect: 2, Most: 3, Processes: 4},
		{Expect: 2, Most: 3, Processes: 4, Changes: 1},
		{Expect: 2, Most: 3, Processes: 4, Rebirths: 1},
		{Expect: 3, Most: 4, Processes: 5, Apart: apart},
		// The first mesh votes d in, and d hears of this only after its pledge to e and f. If d
		// then joined under the identity of the pledge, d would count in both meshes.
		{Expect: 3, Most: 4, Processes: 6, Changes: 1, Apart: [][2]int{{0, 4}, {0, 5}, {1, 3}, {1, 4}, {1, 5}, {2, 3}, {2, 4}, {2, 5}}},
	}
	wide = []Options{
		{Expect: 2, Most: 3, Processes: 5},
		{Expect: 3, Most: 4, Processes: 4},
		{Expect: 2, Most: 3, Processes: 4, Rebirths: 1, Changes: 1},
		{Expect: 2, Most: 3, Processes: 5, Changes: 1},
		{Expect: 2, Most: 3, Processes: 5, Rebirths: 1},
	}
	return small, wide
}
