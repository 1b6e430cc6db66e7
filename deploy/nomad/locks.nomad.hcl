# Tasks of Nomad: random allocations, no disks, birth by count. Three voters, and no more than four
# processes at once: canaries would be too many. For a promise without that bound set
# LOCKMESH_REGISTER to the URL of an object with conditional writes.
#
# Promise: no lock has two holders as long as no more than four allocations run at once. Survives:
# the loss of one of three voters at a time, and the loss of all (a new mesh after 7 MaxTTL). The
# allocation of a dead machine is replaced after an hour, or once you stop it (see disconnect).
#
# Before: nomad var put nomad/jobs/locks secret="$(openssl rand -hex 32)"
job "locks" {
  type = "service"

  update {
    max_parallel      = 1
    health_check      = "checks"
    # Until the allocation before has ended: it counts as long as it runs.
    min_healthy_time  = "65s"
    # The gate opens after five minutes in any case, so that an update can mend a mesh without a
    # majority: then an allocation is healthy after six minutes and the load of its image.
    healthy_deadline  = "8m"
    progress_deadline = "15m"
    auto_revert       = true
  }

  # The same where machines are drained: one allocation after the other.
  migrate {
    max_parallel     = 1
    health_check     = "checks"
    min_healthy_time = "65s"
    healthy_deadline = "8m"
  }

  group "locks" {
    count = 3

    # An allocation that is cut off may still run, and Nomad can't tell a dead machine from a machine
    # that is cut off. The allocation isn't replaced for an hour: by then make sure that its machine
    # is off, or back. With the machine off for sure, "nomad alloc stop" has it replaced at once.
    disconnect {
      lost_after = "1h"
      replace    = false
      reconcile  = "keep_original"
    }

    constraint {
      operator = "distinct_hosts"
      value    = "true"
    }

    network {
      mode = "host"
      port "mesh" {
        static = 7950
      }
      port "probes" {}
    }

    service {
      name         = "locks"
      provider     = "nomad"
      port         = "mesh"
      address_mode = "host"

      check {
        type     = "http"
        port     = "probes"
        path     = "/readyz?settled=1"
        interval = "2s"
        timeout  = "1s"
      }
    }

    task "service" {
      driver = "docker"

      # A Nomad client allows for no more than its max_kill_timeout: raise the default of 30 s.
      kill_timeout = "60s"

      config {
        image        = "example.com/service:1" # examples/service, or your own program
        network_mode = "host"
      }

      # The addresses of all allocations, from Nomad's own service discovery: an IPv6 address needs
      # brackets beside a port.
      template {
        destination = "local/peers"
        change_mode = "noop"
        data        = <<EOT
{{ range nomadService "locks" }}{{ if .Address | contains ":" }}[{{ .Address }}]{{ else }}{{ .Address }}{{ end }}:{{ .Port }}
{{ end }}
EOT
      }

      # The secret, or a line for each during a change of the secret. A running service keeps what
      # it has read: else Nomad would restart all at once when the variable changes.
      template {
        destination = "secrets/lockmesh"
        change_mode = "noop"
        data        = <<EOT
{{ with nomadVar "nomad/jobs/locks" }}{{ .secret }}{{ end }}
EOT
      }

      # Raise the number to replace the allocations one by one, such as for a change of the secret.
      meta {
        rollout = "1"
      }

      env {
        LOCKMESH_SECRET_FILE = "${NOMAD_SECRETS_DIR}/lockmesh"
        LOCKMESH_MESH        = "locks" # another name for each application
        LOCKMESH_EXPECT      = "3"
        SERVICE_GRACE        = "55s"
        LOCKMESH_PEERS       = "file:${NOMAD_TASK_DIR}/peers"
        LOCKMESH_ADVERTISE   = "${NOMAD_ADDR_mesh}"
        SERVICE_HTTP         = ":${NOMAD_PORT_probes}"
      }

      resources {
        cpu    = 200
        memory = 128
      }
    }
  }
}
