# Commands of Vivado that check their options and record their calls; no other command of Vivado exists.
# Arguments of tclsh: this file, the script, the file of the record. Answers come from the environment.

# Command: options without a value, options with a value, least and most positional arguments.
# Source: AMD UG835, Vivado Design Suite Tcl Command Reference Guide.
set commands {
    add_files {{-norecurse -scan_for_includes} {-fileset -of_objects -copy_to} 0 1}
    apply_bd_automation {{} {-rule -config -opts} 1 1}
    assign_bd_address {{-force -external} {-target_address_space -offset -range -import_from_file} 0 1}
    connect_bd_intf_net {{-auto} {-intf_net} 2 2}
    connect_bd_net {{} {-net} 1 99}
    create_bd_cell {{} {-vlnv -type -reference} 1 1}
    create_bd_design {{} {-dir -cell -mode} 1 1}
    create_project {{-force -in_memory -ip} {-part} 0 2}
    current_fileset {{-constrset -simset -srcset} {} 0 1}
    current_project {{} {} 0 1}
    get_bd_addr_segs {{-hierarchical -regexp -excluded} {-filter -of_objects} 0 1}
    get_bd_addr_spaces {{-hierarchical -regexp} {-filter -of_objects} 0 1}
    get_bd_cells {{-hierarchical -regexp} {-filter -of_objects} 0 1}
    get_bd_intf_pins {{-hierarchical -regexp} {-filter -of_objects} 0 1}
    get_bd_pins {{-hierarchical -regexp} {-filter -of_objects} 0 1}
    get_board_parts {{-latest_file_version -latest_hw_revision -regexp} {-filter -of_objects} 0 1}
    get_files {{-regexp -all -norecurse} {-filter -of_objects -compile_order -used_in} 0 1}
    get_property {{-min -max} {} 2 2}
    get_runs {{-regexp} {-filter} 0 1}
    launch_runs {{-force -scripts_only -next_step} {-jobs -to_step -dir -host} 1 99}
    make_wrapper {{-top -testbench -inst_template -import -force} {-files -fileset} 0 1}
    open_run {{} {-name -pr_config} 1 1}
    report_timing_summary {{-append -return_string} {-file -max_paths -nworst -delay_type -name} 0 0}
    report_utilization {{-append -hierarchical -return_string} {-file -cells -name -hierarchical_depth} 0 0}
    save_bd_design {{} {} 0 1}
    set_property {{} {-dict} 1 3}
    update_compile_order {{} {-fileset} 0 0}
    validate_bd_design {{-force} {-design} 0 1}
    wait_on_run {{} {-timeout} 1 1}
    write_hw_platform {{-fixed -force -include_bit -include_sim_content -minimal} {} 1 1}
}

proc quoted {text} {
    return "\"[string map {\\ \\\\ \" \\\" \n \\n \t \\t} $text]\""
}

proc record {words} {
    set file [open $::record a]
    puts $file "\[[join [lmap word $words {quoted $word}] {, }]\]"
    close $file
}

# Check a call against the table, and return its positional arguments.
proc checked {command words} {
    lassign [dict get $::commands $command] flags valued least most
    set positional {}
    while {[llength $words]} {
        set words [lassign $words word]
        if {$word in $valued} {
            if {![llength $words]} {error "$command: $word has no value"}
            set words [lrange $words 1 end]
        } elseif {[string match {-[a-z]*} $word] && $word ni [list -quiet -verbose {*}$flags]} {
            error "$command has no option $word"
        } elseif {![string match {-[a-z]*} $word]} {
            lappend positional $word
        }
    }
    if {[llength $positional] < $least || [llength $positional] > $most} {
        error "$command has [llength $positional] positional arguments: $positional"
    }
    return $positional
}

proc answer_to {command positional} {
    switch -glob $command {
        get_board_parts {return $::env(BOARD_PARTS)}
        get_property {return $::env([string map {CONFIG. {} STATS. {}} [lindex $positional 0]])}
        make_wrapper {return system_wrapper.v}
        get_* {return [lindex $positional 0]}
        default {return "<$command>"}
    }
}

lassign $argv script record
foreach command [dict keys $commands] {
    proc $command {args} [string map "COMMAND $command" {
        record [list COMMAND {*}$args]
        set positional [checked COMMAND $args]
        if {"COMMAND" eq "launch_runs" && "write_bitstream" in $args} {
            file mkdir project/vdla.runs/impl_1
            close [open project/vdla.runs/impl_1/system_wrapper.bit w]
        }
        return [answer_to COMMAND $positional]
    }]
}
source $script
