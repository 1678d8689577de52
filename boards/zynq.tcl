# The variables above name the board and its processing system. Vivado's commands are documented in UG835, block designs
# in UG994 and UG995.

proc fail {message} {
    error "vdla: $message"
}

# Run `run` up to `step`, and stop unless it is complete.
proc complete {run args} {
    launch_runs $run {*}$args -jobs 4
    wait_on_run $run
    if {[get_property PROGRESS [get_runs $run]] ne "100%"} {
        fail "$run has failed; project/vdla.runs/$run/runme.log says why"
    }
}

set folder [file dirname [file normalize [info script]]]
cd $folder
file delete bitstream.bit vdla.xsa

# Project and sources. The board files hold the settings of DDR and clocks, which no part has by itself.
set boards [lsort -dictionary [get_board_parts -quiet $board_part:*]]
if {![llength $boards]} {
    fail "Vivado has no board files for $board_part; install them from the Vivado Store (Tools), and run again"
}
create_project -force -part $part vdla $folder/project
set_property board_part [lindex $boards end] [current_project]
add_files -norecurse [list $folder/$top.v]
update_compile_order -fileset sources_1

# Cells. The accelerator's interfaces follow from the attributes of its ports.
create_bd_design system
create_bd_cell -type ip -vlnv xilinx.com:ip:$ps_ip ps
apply_bd_automation -rule xilinx.com:bd_rule:$ps_ip -config $ps_automation [get_bd_cells ps]
set_property -dict $ps_properties [get_bd_cells ps]
create_bd_cell -type module -reference $top vdla
create_bd_cell -type ip -vlnv xilinx.com:ip:proc_sys_reset reset
foreach bus {control data} {
    create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect $bus
    set_property -dict {CONFIG.NUM_SI 1 CONFIG.NUM_MI 1} [get_bd_cells $bus]
}

# One clock, one reset.
foreach pin [list vdla/aclk control/aclk data/aclk reset/slowest_sync_clk ps/$ps_control_clock ps/$ps_data_clock] {
    connect_bd_net [get_bd_pins ps/$ps_clock] [get_bd_pins $pin]
}
connect_bd_net [get_bd_pins ps/$ps_reset] [get_bd_pins reset/ext_reset_in]
foreach pin {vdla/aresetn control/aresetn data/aresetn} {
    connect_bd_net [get_bd_pins reset/peripheral_aresetn] [get_bd_pins $pin]
}
set hertz [get_property CONFIG.FREQ_HZ [get_bd_pins ps/$ps_clock]]
if {abs($hertz / 1e6 / $clock_mhz - 1) > 0.01} {
    fail "the processing system makes [expr {$hertz / 1e6}] MHz of $clock_mhz MHz; repeat vdla build with\
        --set clock_mhz=[expr {$hertz / 1e6}]"
}
foreach bus {m_axi s_axi} {
    set_property CONFIG.FREQ_HZ $hertz [get_bd_intf_pins vdla/$bus]
}

# Registers, memory, interrupt. SmartConnect converts protocols and widths.
connect_bd_intf_net [get_bd_intf_pins ps/$ps_control] [get_bd_intf_pins control/S00_AXI]
connect_bd_intf_net [get_bd_intf_pins control/M00_AXI] [get_bd_intf_pins vdla/s_axi]
connect_bd_intf_net [get_bd_intf_pins vdla/m_axi] [get_bd_intf_pins data/S00_AXI]
connect_bd_intf_net [get_bd_intf_pins data/M00_AXI] [get_bd_intf_pins ps/$ps_data]
connect_bd_net [get_bd_pins vdla/interrupt] [get_bd_pins ps/$ps_interrupt]
assign_bd_address -offset $registers -range $registers_bytes -force \
    -target_address_space [get_bd_addr_spaces ps/Data] [get_bd_addr_segs vdla/s_axi/reg0]
assign_bd_address -offset $memory -range $memory_bytes -force \
    -target_address_space [get_bd_addr_spaces vdla/m_axi] [get_bd_addr_segs ps/$ps_segment]
validate_bd_design
save_bd_design
add_files -norecurse [make_wrapper -files [get_files system.bd] -top]
set_property top system_wrapper [current_fileset]
update_compile_order -fileset sources_1

# Synthesis, place and route. The clock of the processing system has its constraint from Vivado.
complete synth_1
complete impl_1
open_run impl_1
report_utilization -file utilisation.rpt
report_timing_summary -file timing.rpt
set setup [get_property STATS.WNS [get_runs impl_1]]
set hold [get_property STATS.WHS [get_runs impl_1]]
puts "vdla: worst slack of setup $setup ns, of hold $hold ns, at $clock_mhz MHz"
if {![string is double -strict $setup] || ![string is double -strict $hold]} {
    fail "impl_1 has no worst slack; timing.rpt says why"
}
if {($setup < 0 || $hold < 0) && !$allow_slow_clock} {
    fail "the timing is not met, and no bitstream was written; timing.rpt names the slowest paths. Repeat vdla build\
        with a slower clock (--set clock_mhz=...), or with --allow-slow-clock"
}
complete impl_1 -to_step write_bitstream
file copy -force project/vdla.runs/impl_1/system_wrapper.bit bitstream.bit
write_hw_platform -fixed -include_bit -force vdla.xsa
puts "vdla: bitstream.bit and vdla.xsa are written"
